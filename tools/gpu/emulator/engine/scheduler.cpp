// Fibers, and the order in which blocks, warps and lanes take turns.
#include <algorithm>
#include <csignal>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include "engine.h"
#include "entry.h"

namespace emulator {

Thread* current = nullptr;
dim3 grid_size, block_size;
Machine machine;

namespace {

constexpr size_t stack_bytes = 64 * 1024;
constexpr uint64_t canary = 0x5afe57acc0ffee00;

#if defined(__x86_64__)
asm(R"(
.text
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, . - emulator_switch
)");
extern "C" __attribute__((visibility("hidden"))) void emulator_switch(void** saved, void* next);

void* new_stack(unsigned char* low, size_t offset, void (*entry)()) {
  auto top = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(low) + stack_bytes - offset) & ~uintptr_t{15});
  *--top = 0;  // where the entry would return to
  *--top = reinterpret_cast<uint64_t>(entry);
  for (int i = 0; i < 6; ++i) *--top = 0;
  return top;
}
#else
extern "C" void emulator_switch(void** saved, void* next) {
  ucontext_t here;
  *saved = &here;
  swapcontext(&here, static_cast<ucontext_t*>(next));
}
void* new_stack(unsigned char* low, size_t, void (*entry)()) {
  auto context = reinterpret_cast<ucontext_t*>(low + 64);
  getcontext(context);
  context->uc_stack.ss_sp = low + 64 + sizeof(ucontext_t);
  context->uc_stack.ss_size = stack_bytes - 64 - sizeof(ucontext_t);
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}
#endif

uint64_t next_random() {
  machine.random ^= machine.random << 13;
  machine.random ^= machine.random >> 7;
  machine.random ^= machine.random << 17;
  return machine.random;
}

Thread& first_ready(Warp& warp) {
  const int lane = machine.request.schedule.reverse_lanes ? 31 - __builtin_clz(warp.ready) : __builtin_ctz(warp.ready);
  return warp.lanes[static_cast<size_t>(lane)];
}

void to_scheduler(Thread& self) {
  ++machine.counters.switches;
  emulator_switch(&self.stack_pointer, machine.scheduler);
}

void next_lane(Thread& self) {
  Warp& warp = *self.warp;
  if (!warp.ready || warp.block->preempted) return to_scheduler(self);
  Thread& next = first_ready(warp);
  if (&next == &self) return;
  current = &next;
  ++machine.counters.switches;
  emulator_switch(&self.stack_pointer, next.stack_pointer);
}

void thread_body() {
  Thread& self = *current;
  enter_kernel(machine.request.parameters);
  if (*reinterpret_cast<uint64_t*>(self.stack) != canary) fault("stack overflow", "a thread used more than 64 KiB of stack");
  Warp& warp = *self.warp;
  Block& block = *self.block;
  warp.alive &= ~self.bit;
  warp.ready &= ~self.bit;
  --block.alive;
  ++machine.progress;
  lane_finished_collectives(warp);
  barrier_without(block);
  if (!warp.alive) flush_accesses(warp);
  next_lane(self);
  __builtin_unreachable();
}

void start(Block& block, uint32_t number, uint32_t start) {
  const uint32_t* grid = machine.request.grid;
  block.index = {number % grid[0], number / grid[0] % grid[1], number / grid[0] / grid[1]};
  block.serial = start + 1;
  block.start = start;
  block.epoch = machine.next_epoch++;
  block.alive = static_cast<unsigned>(machine.threads_per_block);
  block.at_barrier = 0;
  block.preempted = block.held = false;
  block.live = true;
  block.next_warp = 0;
  block.seen_progress = ~uint64_t{0};
  ++machine.progress;
  for (Warp& warp : block.warps) {
    warp.alive = warp.ready = 0;
    warp.polling = warp.paused = warp.at_barrier = 0;
    warp.clock = 1;
    warp.full_clock = 0;
    warp.partial = false;
    for (Thread& thread : warp.lanes) {
      warp.alive |= thread.bit;
      thread.accesses.clear();
      thread.copies.clear();
      thread.groups.clear();
      thread.uncommitted = 0;
      thread.together = nullptr;
      thread.polled_address = 0;
      thread.idle_polls = 0;
      thread.has_fenced = false;
      thread.unfenced_reads.clear();
      *reinterpret_cast<uint64_t*>(thread.stack) = canary;
      thread.stack_pointer = new_stack(thread.stack, static_cast<size_t>(thread.lane) * 320, thread_body);
    }
    warp.ready = warp.alive;
  }
}

void make_room(size_t resident) {
  const uint32_t* size = machine.request.block;
  const size_t threads = machine.threads_per_block, warps = machine.warps_per_block;
  machine.blocks.clear();
  static std::vector<unsigned char*> stacks;
  while (stacks.size() < resident * threads) {
    void* memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      fault("machine", "no memory for the stacks of the emulated threads");
      siglongjmp(machine.escape, 1);
    }
    stacks.push_back(static_cast<unsigned char*>(memory));
  }
  for (size_t b = 0; b < resident; ++b) {
    auto block = std::make_unique<Block>();
    block->warps.resize(warps);
    size_t linear = 0;
    for (size_t w = 0; w < warps; ++w) {
      Warp& warp = block->warps[w];
      warp.block = block.get();
      warp.number = static_cast<int>(w);
      warp.lanes.resize(std::min<size_t>(warp_lanes, threads - linear));
      for (size_t lane = 0; lane < warp.lanes.size(); ++lane, ++linear) {
        Thread& thread = warp.lanes[lane];
        thread.stack = stacks[b * threads + linear];
        thread.index = {static_cast<unsigned>(linear % size[0]), static_cast<unsigned>(linear / size[0] % size[1]),
                        static_cast<unsigned>(linear / size[0] / size[1])};
        thread.warp = &warp;
        thread.block = block.get();
        thread.lane = static_cast<int>(lane);
        thread.bit = 1u << lane;
      }
    }
    block->shared.assign(machine.shared_bytes, 0xff);
    block->cells.assign(machine.shared_bytes / piece_bytes + 1, Cell{});
    machine.blocks.push_back(std::move(block));
  }
}

// Run a block until none of its warps can go on by itself, or until it is preempted.
void run_slice(Block& block) {
  block.preempted = block.held = false;
  block.seen_progress = machine.progress;
  ++machine.counters.slices;
  for (Warp& warp : block.warps) {
    warp.ready |= warp.polling;
    warp.polling = 0;
  }
  for (bool any = true; any;) {
    any = false;
    const size_t count = block.warps.size();
    for (size_t i = 0; i < count; ++i) {
      const size_t turn = block.next_warp;
      block.next_warp = (turn + 1) % count;  // so that a warp that polls doesn't keep the others of a preempted block waiting
      Warp& warp = block.warps[machine.request.schedule.reverse_lanes ? count - 1 - turn : turn];
      if (!warp.ready && warp.paused) {
        flush_accesses(warp);
        warp.ready = warp.paused;
        warp.paused = 0;
        block.preempted = true;  // so that one who spins on plain loads doesn't keep the others from going on
      }
      if (!warp.ready) continue;
      current = &first_ready(warp);
      ++machine.counters.switches;
      emulator_switch(&machine.scheduler, current->stack_pointer);
      any = true;
      if (block.preempted) return;
    }
  }
}

bool can_go_on(const Block& block) {
  bool polling = false;
  for (const Warp& warp : block.warps) {
    if (warp.ready || warp.paused) return true;
    polling |= warp.polling != 0;
  }
  return polling && machine.progress != block.seen_progress;
}

Block* choose(const std::vector<Block*>& candidates, Block* last) {
  switch (static_cast<Pick>(machine.request.schedule.pick)) {
    case Pick::oldest: return candidates.front();
    case Pick::newest: return candidates.back();
    case Pick::random: return candidates[next_random() % candidates.size()];
    case Pick::rotate: break;
  }
  for (Block* block : candidates)
    if (last && block->start > last->start) return block;
  return candidates.front();
}

std::string state_of(const Block& block) {
  std::string text = describe(block) + " (started as number " + std::to_string(block.start) + "): ";
  unsigned polling = 0, barrier = 0, together = 0;
  std::string where;
  for (const Warp& warp : block.warps)
    for (const Thread& thread : warp.lanes) {
      if (!(warp.alive & thread.bit)) continue;
      if (warp.polling & thread.bit) ++polling;
      if (warp.at_barrier & thread.bit) ++barrier;
      if (thread.together && !thread.together->done) {
        ++together;
        where = whereabouts(thread.together->site);
      }
    }
  if (polling) text += std::to_string(polling) + " threads poll, ";
  if (barrier) text += std::to_string(barrier) + " wait at a block barrier, ";
  if (together) text += std::to_string(together) + " wait for lanes of their warp" + where + ", ";
  return text + std::to_string(block.alive) + " not finished";
}

}  // namespace

void wait_for_others() {
  Thread& self = *current;
  self.warp->ready &= ~self.bit;
  next_lane(self);
}

void give_way() {
  current->block->preempted = true;
  to_scheduler(*current);
}

void poll_again() {
  Thread& self = *current;
  self.warp->ready &= ~self.bit;
  self.warp->polling |= self.bit;
  next_lane(self);
}

bool run_blocks() {
  const Schedule& schedule = machine.request.schedule;
  const uint32_t* grid = machine.request.grid;
  const size_t total = static_cast<size_t>(grid[0]) * grid[1] * grid[2];
  const size_t resident = std::min<size_t>(total, static_cast<size_t>(schedule.resident));
  make_room(resident);
  machine.random = schedule.seed * 2654435769u + 1;
  size_t started = 0, finished = 0;
  int fruitless = 0;
  uint64_t last_progress = 0, standing_still = 0;
  Block* last = nullptr;
  std::vector<Block*> candidates, held, alive;
  while (finished < total) {
    for (auto& block : machine.blocks)
      if (!block->live && started < total) {
        start(*block, schedule.start_order ? schedule.start_order[started] : static_cast<uint32_t>(started),
              static_cast<uint32_t>(started));
        ++started;
      }
    candidates.clear();
    held.clear();
    alive.clear();
    for (auto& block : machine.blocks) {
      if (!block->live) continue;
      alive.push_back(block.get());
      if (!can_go_on(*block)) continue;
      (block->held ? held : candidates).push_back(block.get());
    }
    if (candidates.empty()) candidates = held;
    if (candidates.empty()) {
      bool polling = false;
      for (const Block* block : alive)
        for (const Warp& warp : block->warps) polling |= warp.polling != 0;
      if (!polling || ++fruitless > 64) {
        std::sort(alive.begin(), alive.end(), [](Block* a, Block* b) { return a->start < b->start; });
        std::string text = std::to_string(total - started) + " blocks not started;";
        for (size_t i = 0; i < alive.size() && i < 4; ++i) text += " " + state_of(*alive[i]) + ";";
        fault("deadlock", text);
        return false;
      }
      // Each in turn, whatever the schedule picks: one that always picked the newest would let the others starve.
      candidates = {alive[static_cast<size_t>(fruitless) % alive.size()]};
    }
    if (machine.progress != last_progress) {
      fruitless = 0;
      standing_still = 0;
    } else if (++standing_still > 100000) {
      fault("deadlock", "threads spin and nothing else happens");
      return false;
    }
    last_progress = machine.progress;
    auto by_start = [](Block* a, Block* b) { return a->start < b->start; };
    std::sort(candidates.begin(), candidates.end(), by_start);
    last = choose(candidates, last);
    run_slice(*last);
    if (!last->alive) {
      last->live = false;
      ++finished;
    }
  }
  return true;
}

void preempt_if_due() {
  const int32_t quantum = machine.request.schedule.quantum;
  if (quantum && ++machine.steps % static_cast<uint64_t>(quantum) == 0) current->block->preempted = true;
}

}  // namespace emulator
