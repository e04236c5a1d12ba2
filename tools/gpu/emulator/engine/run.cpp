// One launch, from the caller's request to the report.
#include <csignal>
#include <cstring>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "engine.h"

namespace emulator {

void write_report();
void prepare_strong();

namespace {

alignas(16) unsigned char signal_stack[64 * 1024];

void on_signal(int) { siglongjmp(machine.escape, 2); }

// Flush subnormal numbers as the GPU's -ftz=true does; the processor's mode, so doubles are flushed too.
struct FlushSubnormals {
#if defined(__SSE__)
  unsigned before = _mm_getcsr();
  explicit FlushSubnormals(bool flush) {
    if (flush) _mm_setcsr(before | 0x8040u);
  }
  ~FlushSubnormals() { _mm_setcsr(before); }
#else
  explicit FlushSubnormals(bool) {}
#endif
};

}  // namespace

void run(const LaunchRequest& request) {
  machine.request = request;
  machine.counters = Counters{};
  machine.sites.clear();
  machine.faults.clear();
  machine.progress = machine.steps = machine.time = 0;
  machine.next_epoch = 1;
  current = nullptr;
  grid_size = {request.grid[0], request.grid[1], request.grid[2]};
  block_size = {request.block[0], request.block[1], request.block[2]};
  machine.threads_per_block = static_cast<uint64_t>(request.block[0]) * request.block[1] * request.block[2];
  machine.warps_per_block = (machine.threads_per_block + warp_lanes - 1) / warp_lanes;
  const uint64_t blocks = static_cast<uint64_t>(request.grid[0]) * request.grid[1] * request.grid[2];
  machine.history.assign(blocks + 1, History{});
  prepare_arrays();
  prepare_shared();
  prepare_strong();

  stack_t alternate{}, old_stack{};
  alternate.ss_sp = signal_stack;
  alternate.ss_size = sizeof signal_stack;
  sigaltstack(&alternate, &old_stack);
  struct sigaction action {}, old_segv{}, old_bus{}, old_fpe{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &old_segv);
  sigaction(SIGBUS, &action, &old_bus);
  sigaction(SIGFPE, &action, &old_fpe);
  volatile bool completed = false;
  {
    FlushSubnormals mode(request.flush_subnormals != 0);
    const int reason = sigsetjmp(machine.escape, 1);
    if (reason == 0) completed = run_blocks();
    else if (reason == 2)
      fault("unchecked access", std::string("the kernel followed a pointer past the functions of memory.cuh, or crashed") +
            (current ? ", in " + describe(*current->block) : ""));
  }
  sigaction(SIGSEGV, &old_segv, nullptr);
  sigaction(SIGBUS, &old_bus, nullptr);
  sigaction(SIGFPE, &old_fpe, nullptr);
  sigaltstack(&old_stack, nullptr);
  current = nullptr;
  if (completed) finish_arrays();
  finish_shared();
  write_report();
}

}  // namespace emulator

extern "C" {
__attribute__((visibility("default"))) const char* emulator_run(const emulator::LaunchRequest* request) {
  emulator::run(*request);
  return emulator::machine.report.c_str();
}
}
