// What the parts of the engine know of each other.
#pragma once
#include <csetjmp>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "machine.h"

namespace emulator {

struct Piece {
  uint64_t offset, bytes;
  unsigned char* data;
};
enum class Role : int { in, out, inout, scratch };

// An array as the caller describes it: an extent of virtual addresses, and memory behind some pieces of it.
struct ArrayRequest {
  const char* name;
  uint64_t base, bytes;
  int32_t role, piece_count;
  const Piece* pieces;
  const unsigned char* const* expected;  // piece by piece: which bytes a kernel must write; null means all
};
struct LaunchRequest {
  uint32_t grid[3], block[3];
  uint32_t dynamic_shared;
  int32_t flush_subnormals, truncate_products, array_count;
  Schedule schedule;
  const ArrayRequest* arrays;
  void** parameters;
};

struct GlobalPiece : Piece {
  std::vector<uint8_t> written;  // how often each byte was
  std::vector<Cell> cells;
};
struct GlobalArray {
  std::string name;
  uint64_t base = 0, bytes = 0;
  Role role = Role::in;
  std::vector<GlobalPiece> pieces;
  std::vector<const unsigned char*> expected;
  uint64_t read = 0, written = 0, read_sectors = 0, write_sectors = 0;
};

struct SiteCount {
  uint64_t requests = 0, bytes = 0, sectors = 0, wavefronts = 0, ideal = 0;
};
struct SiteKey {
  const char* file;
  int line;
  Space space;
  bool operator<(const SiteKey& other) const {
    if (line != other.line) return line < other.line;
    if (space != other.space) return space < other.space;
    return file < other.file;
  }
};
struct Counters {
  uint64_t width_bytes[17] = {};  // global bytes moved by accesses of that many bytes a thread
  uint64_t block_barriers = 0, warp_barriers = 0, shuffles = 0, votes = 0, multiplies = 0, atomics = 0, fences = 0, polls = 0;
  uint64_t copies = 0, switches = 0, slices = 0;
  uint64_t shared_bytes_used = 0;
};

struct Fault {
  std::string kind, message;
  uint64_t count = 0;
};

struct Machine {
  LaunchRequest request{};
  uint64_t threads_per_block = 0, warps_per_block = 0;
  std::vector<std::unique_ptr<Block>> blocks;  // room for the resident ones
  std::vector<History> history;                // by serial number of the block
  void* scheduler = nullptr;
  sigjmp_buf escape;
  uint32_t next_epoch = 1, time = 0;
  uint64_t progress = 0, steps = 0;
  uint64_t random = 1;
  std::vector<GlobalArray> arrays;
  uint64_t shared_base = 0, shared_bytes = 0;   // where the kernel's shared arrays are declared
  uint64_t dynamic_base = 0, dynamic_room = 0;  // and the dynamic one among them
  Counters counters;
  std::map<SiteKey, SiteCount> sites;
  std::vector<Fault> faults;
  std::string report;
};
extern Machine machine;

constexpr unsigned piece_bytes = 2;  // what a cell speaks of

// faults.cpp
void fault(const char* kind, const std::string& message);
void fault(const char* kind, const std::string& message, Site site);
std::string describe(const Block& block);
std::string describe(const Stamp& stamp);
std::string whereabouts(Site site);

// traffic.cpp
void note_access(Space space, uint64_t address, unsigned size, Site site);
void flush_accesses(Warp& warp);
void count_group(Site site, Space space, unsigned size, const uint64_t* addresses, const uint8_t* lanes, int count);

// ordering.cpp
Stamp stamp_now(bool whole);
View view_now(bool whole);
void check_read(Cell& cell, bool whole, bool shared, const char* what, Site site);
void check_write(Cell& cell, bool whole, bool shared, const char* what, Site site);
void warp_synchronized(Warp& warp, uint32_t mask);

// global_memory.cpp, shared_memory.cpp
bool is_shared(uint64_t address);
void prepare_arrays();
void finish_arrays();
void global_read(void* to, uint64_t address, unsigned size, bool whole, Site site);
void global_write(uint64_t address, const void* from, unsigned size, bool whole, Site site);
unsigned char* locate_global(uint64_t address, unsigned size, bool write, Site site, GlobalArray** array, GlobalPiece** piece);
void prepare_shared();
void finish_shared();
void shared_read(void* to, uint64_t address, unsigned size, bool whole, Site site);
void shared_write(uint64_t address, const void* from, unsigned size, bool whole, Site site);
unsigned char* locate_shared(uint64_t address, unsigned size, bool write, Site site, Cell** cells);
void thread_copies_begin(Thread& thread);

// scheduler.cpp
bool run_blocks();  // false if it got stuck
void lane_finished_collectives(Warp& warp);
void barrier_without(Block& block);

// strong.cpp
void prepare_strong();

}  // namespace emulator
