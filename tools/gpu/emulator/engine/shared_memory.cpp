// Shared memory: each block's own bytes behind the addresses of the kernel's declarations, and asynchronous copies into it.
//
// `__shared__` declares thread_local variables, so all of a kernel's shared arrays lie in one range of addresses, the
// thread-local segment of its library. That range is filled with a pattern and used for addresses only.
#include <link.h>

#include <cstring>

#include "accessors.h"
#include "engine.h"
#include "shared_range.h"

namespace emulator {

namespace {

constexpr unsigned char pattern = 0xff;  // NaN in every floating-point format

int find_segment(dl_phdr_info* info, size_t, void*) {
  const auto here = reinterpret_cast<uintptr_t>(&machine);
  bool ours = false;
  const ElfW(Phdr)* segment = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uintptr_t low = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && here >= low && here < low + header.p_memsz) ours = true;
    if (header.p_type == PT_TLS) segment = &header;
  }
  if (!ours) return 0;
  if (segment) {
    machine.shared_base = reinterpret_cast<uint64_t>(info->dlpi_tls_data);
    machine.shared_bytes = segment->p_memsz;
  }
  return 1;
}

std::string at(uint64_t address, unsigned size) {
  std::string text = std::to_string(size) + " bytes at byte ";
  if (machine.dynamic_room && address - machine.dynamic_base < machine.dynamic_room)
    return text + std::to_string(address - machine.dynamic_base) + " of dynamic shared memory, which has " +
           std::to_string(machine.request.dynamic_shared);
  return text + std::to_string(static_cast<int64_t>(address - machine.shared_base)) + " of static shared memory";
}

void refresh(Cell& cell) {
  const uint32_t block = current->block->serial;
  if (cell.writer.block != block) cell.writer = Stamp{};
  if (cell.read_block != block) cell.read_block = 0;
}

}  // namespace

bool is_shared(uint64_t address) { return address - machine.shared_base < machine.shared_bytes; }

unsigned char* locate_shared(uint64_t address, unsigned size, bool write, Site site, Cell** cells) {
  const uint64_t offset = address - machine.shared_base;
  const bool dynamic = address - machine.dynamic_base < machine.dynamic_room;
  if (offset + size > machine.shared_bytes || (dynamic && address - machine.dynamic_base + size > machine.request.dynamic_shared)) {
    fault("out of bounds", std::string(write ? "a write of " : "a read of ") + at(address, size), site);
    return nullptr;
  }
  if (address % size) {
    fault("misaligned", std::string(write ? "a write of " : "a read of ") + at(address, size), site);
    return nullptr;
  }
  Block& block = *current->block;
  *cells = &block.cells[offset / piece_bytes];
  return block.shared.data() + offset;
}

void shared_read(void* to, uint64_t address, unsigned size, bool whole, Site site) {
  Cell* cells = nullptr;
  const unsigned char* bytes = locate_shared(address, size, false, site, &cells);
  if (!bytes) {
    std::memset(to, pattern, size);
    return;
  }
  std::memcpy(to, bytes, size);
  ++machine.time;
  const uint32_t block = current->block->serial;
  bool unset = false, copying = false;
  for (unsigned i = 0; i < (size + piece_bytes - 1) / piece_bytes; ++i) {
    Cell& cell = cells[i];
    refresh(cell);
    copying |= cell.copying == block;
    unset |= !cell.writer.block && cell.copying != block;
    check_read(cell, whole, true, "shared memory", site);
  }
  if (copying) fault("copy not awaited", "a read of " + at(address, size) + ", where an asynchronous copy is on its way", site);
  if (unset) fault("uninitialised shared read", "a read of " + at(address, size) + "; this block wrote nothing there", site);
}

void shared_write(uint64_t address, const void* from, unsigned size, bool whole, Site site) {
  Cell* cells = nullptr;
  unsigned char* bytes = locate_shared(address, size, true, site, &cells);
  if (!bytes) return;
  std::memcpy(bytes, from, size);
  ++machine.time;
  ++machine.progress;
  bool copying = false;
  for (unsigned i = 0; i < (size + piece_bytes - 1) / piece_bytes; ++i) {
    refresh(cells[i]);
    copying |= cells[i].copying == current->block->serial;
    check_write(cells[i], whole, true, "shared memory", site);
  }
  if (copying) fault("copy not awaited", "a write of " + at(address, size) + ", where an asynchronous copy is on its way", site);
}

// A copy is a write that begins now, for which the place must be free, and is there when it has been waited for.
void start_copy(void* shared, const void* global, unsigned size, unsigned valid, Site site) {
  const auto target = reinterpret_cast<uint64_t>(shared), source = reinterpret_cast<uint64_t>(global);
  Thread& self = *current;
  PendingCopy copy{target, static_cast<uint8_t>(size), {}};
  if (!is_shared(target) || valid > size) {
    fault("wrong copy", is_shared(target) ? "more valid bytes than bytes" : "an asynchronous copy must go to shared memory", site);
    return;
  }
  if (source % size) fault("misaligned", "the source of an asynchronous copy of " + std::to_string(size) + " bytes", site);
  for (unsigned done = 0; done < valid;) {
    unsigned step = size;
    while (step > valid - done || (source + done) % step) step /= 2;
    global_read(copy.bytes + done, source + done, step, false, site);
    done += step;
  }
  if (valid) note_access(Space::global_to_shared, source, valid, site);
  note_access(Space::shared_write, target, size, site);
  Cell* cells = nullptr;
  if (!locate_shared(target, size, true, site, &cells)) return;
  ++machine.counters.copies;
  ++machine.time;
  bool copying = false;
  for (unsigned i = 0; i < size / piece_bytes; ++i) {
    refresh(cells[i]);
    copying |= cells[i].copying == self.block->serial;
    check_write(cells[i], false, true, "shared memory", site);
    cells[i].copying = self.block->serial;
  }
  if (copying) fault("copy not awaited", "a copy to " + at(target, size) + ", where another one is on its way", site);
  self.copies.push_back(copy);
  ++self.uncommitted;
}

void commit_copies() {
  current->groups.push_back(current->uncommitted);
  current->uncommitted = 0;
}

void wait_copies(unsigned newest_left_alone, Site site) {
  Thread& self = *current;
  if (self.groups.size() <= newest_left_alone) return;
  const size_t groups = self.groups.size() - newest_left_alone;
  size_t count = 0;
  for (size_t g = 0; g < groups; ++g) count += self.groups[g];
  self.groups.erase(self.groups.begin(), self.groups.begin() + static_cast<std::ptrdiff_t>(groups));
  ++machine.time;
  for (size_t i = 0; i < count; ++i) {
    const PendingCopy& copy = self.copies[i];
    Cell* cells = nullptr;
    unsigned char* bytes = locate_shared(copy.target, copy.size, true, site, &cells);
    std::memcpy(bytes, copy.bytes, copy.size);
    for (unsigned p = 0; p < copy.size / piece_bytes; ++p) {
      cells[p].copying = 0;
      cells[p].writer = stamp_now(false);
      cells[p].read_block = 0;
    }
  }
  self.copies.erase(self.copies.begin(), self.copies.begin() + static_cast<std::ptrdiff_t>(count));
}

void prepare_shared() {
  touch_shared();
  machine.shared_base = machine.shared_bytes = 0;
  dl_iterate_phdr(find_segment, nullptr);
  machine.dynamic_base = reinterpret_cast<uint64_t>(dynamic_shared_begin());
  machine.dynamic_room = dynamic_shared_room;
  if (machine.shared_bytes) std::memset(reinterpret_cast<void*>(machine.shared_base), pattern, machine.shared_bytes);
  machine.counters.shared_bytes_used = machine.request.dynamic_shared;
}

void finish_shared() {
  const auto* bytes = reinterpret_cast<const unsigned char*>(machine.shared_base);
  for (uint64_t i = 0; i < machine.shared_bytes; ++i)
    if (bytes[i] != pattern) {
      fault("unchecked access", "a shared array was written directly, past the functions of memory.cuh");
      return;
    }
}

}  // namespace emulator
