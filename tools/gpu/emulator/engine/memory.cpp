// The memory functions that kernels call: which kind of memory a pointer is of, synchronizing accesses, atomics, fences.
#include <cstring>

#include "accessors.h"
#include "engine.h"

namespace emulator {

void preempt_if_due();

namespace {

// What the last releases at an address have made known.
std::unordered_map<uint64_t, std::vector<View>> released;

unsigned char* locate(uint64_t address, unsigned size, bool write, Site site) {
  if (is_shared(address)) {
    Cell* cells = nullptr;
    unsigned char* bytes = locate_shared(address, size, write, site, &cells);
    if (bytes && !write && cells->writer.block != current->block->serial)
      fault("uninitialised shared read", "a synchronizing read of shared memory that this block hasn't written", site);
    if (bytes && write)
      for (unsigned i = 0; i < (size + piece_bytes - 1) / piece_bytes; ++i) cells[i].writer = stamp_now(false);
    return bytes;
  }
  GlobalArray* array = nullptr;
  GlobalPiece* piece = nullptr;
  unsigned char* bytes = locate_global(address, size, write, site, &array, &piece);
  if (!bytes) return nullptr;
  if (array->role == Role::in && write) {
    fault("input written", "a synchronizing write to " + array->name + ", which is only to be read", site);
    return nullptr;
  }
  const uint64_t offset = static_cast<uint64_t>(bytes - piece->data);
  if (array->role == Role::scratch && !write && !piece->written[offset])
    fault("uninitialised global read", "a synchronizing read of " + array->name + ", where nothing was written", site);
  if (write)
    for (unsigned i = 0; i < size; ++i)
      if (piece->written[offset + i] < 2) ++piece->written[offset + i];
  return bytes;
}

void learn(const View& view) {
  auto& acquires = machine.history[current->block->serial].acquires;
  const Stamp now = stamp_now(false);
  for (size_t i = acquires.size(); i-- > 0 && acquires.size() - i <= 64;) {  // one who polls need not learn it again
    const Acquire& known = acquires[i];
    if (known.view.from.block == view.from.block && known.view.from.time == view.from.time && known.by.warp == now.warp && known.by.lane == now.lane)
      return;
  }
  acquires.push_back({now, view});
}

// Called with each value that a thread polls: a thread that sees nothing new lets others go on first.
void polled(uint64_t address, uint64_t value) {
  Thread& self = *current;
  ++machine.counters.polls;
  const bool same = self.polled_progress == machine.progress;
  self.idle_polls = same ? self.idle_polls + 1 : 0;
  const bool spinning = self.idle_polls > 8 || (self.polled_address == address && self.polled_value == value);
  self.polled_address = address;
  self.polled_value = value;
  if (spinning) {
    self.idle_polls = 0;
    poll_again();
  } else if (machine.request.schedule.quantum) {
    give_way();
  }
  self.polled_progress = machine.progress;
}

template <class T>
T combine(Atomic what, T old, T value, T compare) {
  switch (what) {
    case Atomic::add: return static_cast<T>(old + value);
    case Atomic::exchange: return value;
    case Atomic::compare: return old == compare ? value : old;
    case Atomic::minimum: return std::min(old, value);
    case Atomic::maximum: return std::max(old, value);
    default: return old;
  }
}

template <class T>
uint64_t combine_bits(Atomic what, uint64_t old, uint64_t value, uint64_t compare) {
  return to_bits(combine(what, from_bits<T>(old), from_bits<T>(value), from_bits<T>(compare)));
}

}  // namespace

void prepare_strong() { released.clear(); }

void read_memory(void* to, const void* from, unsigned size, Site site) {
  const auto address = reinterpret_cast<uint64_t>(from);
  if (is_shared(address)) {
    note_access(Space::shared_read, address, size, site);
    shared_read(to, address, size, false, site);
  } else {
    note_access(Space::global_read, address, size, site);
    global_read(to, address, size, false, site);
  }
}

void write_memory(void* to, const void* from, unsigned size, Site site) {
  const auto address = reinterpret_cast<uint64_t>(to);
  if (is_shared(address)) {
    note_access(Space::shared_write, address, size, site);
    shared_write(address, from, size, false, site);
  } else {
    note_access(Space::global_write, address, size, site);
    global_write(address, from, size, false, site);
  }
}

uint64_t read_strong(const void* from, unsigned size, Strength strength, Site site) {
  const auto address = reinterpret_cast<uint64_t>(from);
  ++machine.time;
  uint64_t value = 0;
  if (const unsigned char* bytes = locate(address, size, false, site)) {
    std::memcpy(&value, bytes, size);
    polled(address, value);
    std::memcpy(&value, bytes, size);
  }
  note_access(is_shared(address) ? Space::shared_read : Space::global_read, address, size, site);
  const auto known = released.find(address);
  if (known != released.end()) {
    ++machine.time;
    if (strength == Strength::ordered)
      for (const View& view : known->second) learn(view);
    else
      current->unfenced_reads.insert(current->unfenced_reads.end(), known->second.begin(), known->second.end());
  }
  return value;
}

void write_strong(void* to, uint64_t value, unsigned size, Strength strength, Site site) {
  const auto address = reinterpret_cast<uint64_t>(to);
  ++machine.time;
  ++machine.progress;
  note_access(is_shared(address) ? Space::shared_write : Space::global_write, address, size, site);
  if (unsigned char* bytes = locate(address, size, true, site)) std::memcpy(bytes, &value, size);
  auto& views = released[address];
  views.clear();
  if (strength == Strength::ordered) views.push_back(view_now(false));
  else if (current->has_fenced) views.push_back(current->fenced);
  if (machine.request.schedule.hold) {
    current->block->held = true;
    give_way();
  }
}

uint64_t read_modify_write(Atomic what, void* at, unsigned size, uint64_t value, uint64_t compare, Site site) {
  const auto address = reinterpret_cast<uint64_t>(at);
  ++machine.time;
  ++machine.counters.atomics;
  unsigned char* bytes = locate(address, size, false, site);
  if (!bytes) return 0;
  uint64_t old = 0;
  std::memcpy(&old, bytes, size);
  uint64_t next = old;
  switch (what) {
    case Atomic::both: next = old & value; break;
    case Atomic::either: next = old | value; break;
    case Atomic::signed_minimum: next = to_bits(std::min(from_bits<int>(old), from_bits<int>(value))); break;
    case Atomic::signed_maximum: next = to_bits(std::max(from_bits<int>(old), from_bits<int>(value))); break;
    case Atomic::add_float: next = to_bits(from_bits<float>(old) + from_bits<float>(value)); break;
    case Atomic::add_double: next = to_bits(from_bits<double>(old) + from_bits<double>(value)); break;
    default:
      next = size == 8 ? combine_bits<unsigned long long>(what, old, value, compare)
                       : combine_bits<unsigned>(what, old, value, compare);
  }
  if (!locate(address, size, true, site)) return 0;
  if (size < 8) next &= 0xffffffffu;
  std::memcpy(bytes, &next, size);
  auto& views = released[address];
  current->unfenced_reads.insert(current->unfenced_reads.end(), views.begin(), views.end());
  if (current->has_fenced) views.push_back(current->fenced);
  if (next != old) ++machine.progress;
  else polled(address, old);
  return old;
}

void fence(bool device_wide) {
  ++machine.counters.fences;
  if (!device_wide) return;
  ++machine.time;
  for (const View& view : current->unfenced_reads) learn(view);
  current->unfenced_reads.clear();
  current->fenced = view_now(false);
  current->has_fenced = true;
}

void index_fault(int index, int length, Site site) {
  fault("out of bounds", "index " + std::to_string(index) + " of a shared array of length " + std::to_string(length), site);
}

}  // namespace emulator
