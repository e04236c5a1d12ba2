// Global memory: virtual addresses, extents, roles, and which bytes were read and written.
#include <cstring>

#include "engine.h"

namespace emulator {

namespace {

const char* const outside = "out of bounds";

std::string at(const GlobalArray& array, uint64_t address, unsigned size) {
  return std::to_string(size) + " bytes at byte " + std::to_string(static_cast<int64_t>(address - array.base)) + " of " + array.name + ", which has " +
         std::to_string(array.bytes);
}

GlobalArray* nearest(uint64_t address) {
  GlobalArray* best = nullptr;
  for (GlobalArray& array : machine.arrays)
    if (!best || std::abs(static_cast<int64_t>(address - array.base)) < std::abs(static_cast<int64_t>(address - best->base))) best = &array;
  return best;
}

GlobalPiece* piece_of(GlobalArray& array, uint64_t offset, unsigned size) {
  for (GlobalPiece& piece : array.pieces)
    if (offset >= piece.offset && offset + size <= piece.offset + piece.bytes) return &piece;
  return nullptr;
}

}  // namespace

unsigned char* locate_global(uint64_t address, unsigned size, bool write, Site site, GlobalArray** array, GlobalPiece** piece) {
  GlobalArray* found = nullptr;
  for (GlobalArray& candidate : machine.arrays)
    if (address - candidate.base < candidate.bytes) {
      found = &candidate;
      break;
    }
  const char* verb = write ? "a write of " : "a read of ";
  if (!found || address - found->base + size > found->bytes) {
    GlobalArray* close = found ? found : nearest(address);
    fault(outside, verb + (close ? at(*close, address, size) : std::to_string(size) + " bytes, and there are no arrays"), site);
    return nullptr;
  }
  if (address % size) {
    fault("misaligned", verb + at(*found, address, size), site);
    return nullptr;
  }
  const uint64_t offset = address - found->base;
  GlobalPiece* part = piece_of(*found, offset, size);
  if (!part) {
    fault("unforeseen address", verb + at(*found, address, size) + ": in bounds, but where the caller foresaw no access", site);
    return nullptr;
  }
  *array = found;
  *piece = part;
  return part->data + (offset - part->offset);
}

void global_read(void* to, uint64_t address, unsigned size, bool whole, Site site) {
  GlobalArray* array = nullptr;
  GlobalPiece* piece = nullptr;
  const unsigned char* bytes = locate_global(address, size, false, site, &array, &piece);
  if (!bytes) {
    std::memset(to, 0xff, size);
    return;
  }
  std::memcpy(to, bytes, size);
  if (array->role == Role::in) return;
  const uint64_t offset = static_cast<uint64_t>(bytes - piece->data);
  if (array->role == Role::out) {
    fault("output read", "a read of " + at(*array, address, size) + " and is only to be written", site);
    return;
  }
  if (array->role == Role::scratch)
    for (unsigned i = 0; i < size; ++i)
      if (!piece->written[offset + i]) {
        fault("uninitialised global read", "a read of " + at(*array, address, size) + "; nothing was written there", site);
        break;
      }
  ++machine.time;
  for (uint64_t i = offset / piece_bytes; i <= (offset + size - 1) / piece_bytes; ++i)
    check_read(piece->cells[i], whole, false, array->name.c_str(), site);
}

void global_write(uint64_t address, const void* from, unsigned size, bool whole, Site site) {
  GlobalArray* array = nullptr;
  GlobalPiece* piece = nullptr;
  unsigned char* bytes = locate_global(address, size, true, site, &array, &piece);
  if (!bytes) return;
  if (array->role == Role::in) {
    fault("input written", "a write of " + at(*array, address, size) + " and is only to be read", site);
    return;
  }
  ++machine.progress;
  std::memcpy(bytes, from, size);
  const uint64_t offset = static_cast<uint64_t>(bytes - piece->data);
  const unsigned char* expected = array->expected[static_cast<size_t>(piece - array->pieces.data())];
  bool twice = false, unwanted = false;
  for (unsigned i = 0; i < size; ++i) {
    uint8_t& count = piece->written[offset + i];
    twice |= count != 0;
    unwanted |= expected && !expected[offset + i];
    if (count < 2) ++count;
  }
  if (unwanted) fault("written outside", "a write of " + at(*array, address, size) + ", where nothing is to be written", site);
  if (array->role == Role::out) {
    if (twice) fault("written twice", "a second write of " + at(*array, address, size), site);
    return;
  }
  ++machine.time;
  for (uint64_t i = offset / piece_bytes; i <= (offset + size - 1) / piece_bytes; ++i)
    check_write(piece->cells[i], whole, false, array->name.c_str(), site);
}

void prepare_arrays() {
  machine.arrays.clear();
  for (int i = 0; i < machine.request.array_count; ++i) {
    const ArrayRequest& request = machine.request.arrays[i];
    GlobalArray array;
    array.name = request.name;
    array.base = request.base;
    array.bytes = request.bytes;
    array.role = static_cast<Role>(request.role);
    for (int p = 0; p < request.piece_count; ++p) {
      GlobalPiece piece;
      static_cast<Piece&>(piece) = request.pieces[p];
      if (array.role != Role::in) piece.written.assign(piece.bytes, 0);
      if (array.role == Role::inout || array.role == Role::scratch) piece.cells.assign(piece.bytes / piece_bytes + 1, Cell{});
      array.pieces.push_back(std::move(piece));
      array.expected.push_back(request.expected ? request.expected[p] : nullptr);
    }
    machine.arrays.push_back(std::move(array));
  }
}

void finish_arrays() {
  for (GlobalArray& array : machine.arrays) {
    if (array.role != Role::out) continue;
    uint64_t missing = 0, first = 0;
    for (size_t p = 0; p < array.pieces.size(); ++p)
      for (uint64_t i = 0; i < array.pieces[p].bytes; ++i) {
        if (array.pieces[p].written[i] || (array.expected[p] && !array.expected[p][i])) continue;
        if (!missing++) first = array.pieces[p].offset + i;
      }
    if (missing)
      fault("never written", std::to_string(missing) + " bytes of " + array.name + ", the first at byte " + std::to_string(first));
  }
}

}  // namespace emulator
