// The threads of a launch, as fibers of one thread of the CPU.
#include <setjmp.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#include "cuda.h"

uint3 threadIdx, blockIdx;

namespace bare {

// Its context is entered once, and then runs block after block. Jumps are enough to go on, which leave the signal mask
// alone and so need no kernel.
struct Fiber {
    jmp_buf place;
    std::unique_ptr<char[]> stack{new char[STACK_BYTES]};
    bool entered = false, done = false;
};

long long misaligned = 0;

static jmp_buf scheduler;
static std::vector<Fiber> fibers;
static std::vector<Meeting> warps;
static Meeting everyone;
static int current;
static void (*called)(void**);
static void** given;

void pass_turn() {
    const int self = current;
    if (!_setjmp(fibers[self].place)) _longjmp(scheduler, 1);
    threadIdx.x = self;
}

static void open_if_complete(Meeting& meeting) {
    if (meeting.arrived == meeting.members && meeting.members > 0) {
        meeting.arrived = 0;
        ++meeting.round;
    }
}

void meet(Meeting& meeting) {
    const unsigned int round = meeting.round;
    ++meeting.arrived;
    open_if_complete(meeting);
    while (meeting.round == round) pass_turn();
}

Meeting& warp() { return warps[threadIdx.x / 32]; }
Meeting& block() { return everyone; }

static void enter() {
    for (;;) {
        called(given);
        fibers[current].done = true;
        for (Meeting* meeting : {&warps[current / 32], &everyone}) {
            --meeting->members;
            open_if_complete(*meeting);
        }
        warps[current / 32].lanes &= ~(1u << current % 32);
        pass_turn();
    }
}

static void resume(Fiber& fiber) {
    if (_setjmp(scheduler)) return;
    if (fiber.entered) _longjmp(fiber.place, 1);
    fiber.entered = true;
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = fiber.stack.get();
    start.uc_stack.ss_size = STACK_BYTES;
    start.uc_link = nullptr;
    makecontext(&start, enter, 0);
    setcontext(&start);
}

long long launch(void (*kernel)(void**), void** values, int threads, long long grid) {
    called = kernel;
    given = values;
    misaligned = 0;
    if (fibers.size() < static_cast<size_t>(threads)) fibers.resize(threads);
    for (long long at = 0; at < grid; ++at) {
        blockIdx = {static_cast<unsigned int>(at), 0, 0};
        warps.assign((threads + 31) / 32, {});
        everyone = {};
        everyone.members = threads;
        for (int k = 0; k < threads; ++k) {
            ++warps[k / 32].members;
            warps[k / 32].lanes |= 1u << k % 32;
            fibers[k].done = false;
        }
        for (int left = threads; left > 0;)
            for (current = 0; current < threads; ++current) {
                if (fibers[current].done) continue;
                threadIdx = {static_cast<unsigned int>(current), 0, 0};
                resume(fibers[current]);
                left -= fibers[current].done;
            }
    }
    return misaligned;
}

}  // namespace bare
