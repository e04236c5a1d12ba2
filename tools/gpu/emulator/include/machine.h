// The emulated machine: threads (one fiber each), warps, thread blocks, and how they are scheduled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace emulator {

constexpr int warp_lanes = 32;
constexpr int whole_warp = 32;  // the "lane" of what a warp does together and no one knows which lane does

// A place in the kernel source.
struct Site {
  const char* file;
  int line;
};

// One memory instruction of one thread, kept until the warp converges and its threads' instructions are put together.
enum class Space : uint8_t { global_read, global_write, shared_read, shared_write, global_to_shared };
struct Access {
  Site site;
  uint64_t address;
  Space space;
  uint8_t size;
};

// Who did something to a piece of memory, and when: enough to say what has happened before it.
struct Stamp {
  uint32_t block = 0;  // serial number of the thread block, from 1; 0 is nobody
  uint32_t epoch = 0;  // number of the interval between two block barriers, unique over all blocks
  uint32_t clock = 0;  // the warp's count of warp-level synchronizations
  uint32_t time = 0;   // program order within one thread
  uint16_t warp = 0;
  uint8_t lane = 0;
};

// What a thread block knows of others through acquire operations: what `from` had done, seen from `from`'s place.
struct View {
  Stamp from;
  uint32_t full_clock = 0;          // what the warp's lanes did before this clock is ordered
  std::vector<uint32_t> lane_clock;  // the same lane by lane, where lanes synchronized in parts
  size_t acquired = 0;              // how many of the block's acquires came before
};
struct Acquire {
  Stamp by;
  View view;
};
struct History {
  std::vector<Acquire> acquires;
};

// The memory of one piece (2 bytes) about its last writer and the readers since.
struct Cell {
  Stamp writer;
  uint32_t copying = 0;  // serial of the block whose asynchronous copy is on its way here
  uint32_t read_block = 0, read_epoch = 0, read_clock = 0, read_lanes = 0, read_time = 0;
  uint16_t read_warp = 0;
  uint8_t read_lane = 0;
  bool read_by_warps = false, read_by_blocks = false;
};

// A set of lanes that do one thing together: a shuffle, a vote, a warp barrier, a matrix operation.
enum class Together : uint8_t { none, barrier, shuffle, vote, match, load_matrix, store_matrix, multiply };
struct Collective {
  Together what = Together::none;
  uint32_t mask = 0, arrived = 0, left = 0;
  bool done = false, finished = false;
  Site site{};
  uint64_t value[warp_lanes];
  uint64_t pointer = 0;
  uint32_t stride = 0;
  alignas(32) unsigned char matrix[4][1024];  // A, B, C and D, or what a load or a store moves
};

struct Block;
struct Warp;

struct PendingCopy {
  uint64_t target;
  uint8_t size;
  unsigned char bytes[16];
};

struct Thread {
  void* stack_pointer = nullptr;
  unsigned char* stack = nullptr;
  uint3 index{};
  Warp* warp = nullptr;
  Block* block = nullptr;
  int lane = 0;
  uint32_t bit = 0;
  Collective* together = nullptr;
  std::vector<Access> accesses;
  std::vector<PendingCopy> copies;        // asynchronous copies not yet waited for, oldest first
  std::vector<size_t> groups;             // how many of them each commit group holds
  size_t uncommitted = 0;
  uint64_t polled_address = 0, polled_value = 0, polled_progress = 0;
  uint32_t idle_polls = 0;
  View fenced;                            // as of the last fence
  bool has_fenced = false;
  std::vector<View> unfenced_reads;       // what relaxed reads saw released, until a fence
};

struct Warp {
  Block* block = nullptr;
  int number = 0;
  uint32_t alive = 0, ready = 0, polling = 0, paused = 0, at_barrier = 0;
  uint32_t clock = 1, full_clock = 0;
  bool partial = false;                           // have some lanes synchronized without the others?
  std::vector<std::vector<uint32_t>> lane_clock;  // then: [reader][writer]
  std::vector<Collective*> open;
  std::vector<Thread> lanes;
};

struct Block {
  uint3 index{};
  uint32_t serial = 0, start = 0, epoch = 0;
  unsigned alive = 0, at_barrier = 0;
  bool preempted = false, held = false, live = false;
  uint64_t seen_progress = 0;
  size_t next_warp = 0;
  std::vector<Warp> warps;
  std::vector<unsigned char> shared;  // the bytes of its shared memory
  std::vector<Cell> cells;            // and what is known about them
};

enum class Pick : int { oldest, newest, random, rotate };

// How the blocks take turns; what the caller may ask for.
struct Schedule {
  const uint32_t* start_order;  // linear block numbers in the order in which they start
  int32_t resident;             // how many blocks are on the machine at once
  int32_t pick;                 // which of them goes next (Pick)
  int32_t hold;                 // after a release a block waits until all others are stuck
  int32_t quantum;              // preempt after so many warp-wide steps; 0: never
  int32_t reverse_lanes;        // lanes and warps run from the last to the first
  uint32_t seed;
};

extern Thread* current;
extern dim3 grid_size, block_size;

// Hand the processor on: until another thread makes this one ready; until others had a chance to change what it polls;
// at once, to another block.
void wait_for_others();
void poll_again();
void give_way();

}  // namespace emulator
