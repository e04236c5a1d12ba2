// What the lanes of a warp, or the threads of a block, do together.
#pragma once
#include "accessors.h"

namespace emulator {

Collective* join(Together what, uint32_t mask, Site site);
bool arrive(Collective* together);  // true for the lane that completes the set
void release(Collective* together);
void leave(Collective* together);
void block_barrier(Site site);
uint32_t shuffle_source_missing(Collective* together, int source, Site site);

// Deposit what this lane brings, wait for the others, let one of them finish the work, collect the result.
template <class Deposit, class Finish, class Collect>
auto do_together(Together what, uint32_t mask, Site site, Deposit deposit, Finish finish, Collect collect) {
  Collective* together = join(what, mask, site);
  deposit(*together);
  if (!arrive(together)) wait_for_others();
  if (!together->finished) {
    together->finished = true;
    finish(*together);
    release(together);
  }
  auto result = collect(*together);
  leave(together);
  return result;
}

template <class T>
T shuffle(uint32_t mask, T value, int source, bool inside, Site site) {
  const int from = inside ? source : current->lane;
  return do_together(
      Together::shuffle, mask, site, [&](Collective& c) { c.value[current->lane] = to_bits(value); },
      [](Collective&) {},
      [&](Collective& c) {
        if (!(c.arrived >> from & 1)) shuffle_source_missing(&c, from, site);
        return from_bits<T>(c.value[from]);
      });
}
inline uint32_t vote(uint32_t mask, bool mine, Site site) {
  return do_together(
      Together::vote, mask, site, [&](Collective& c) { c.value[current->lane] = mine; }, [](Collective&) {},
      [](Collective& c) {
        uint32_t votes = 0;
        for (int lane = 0; lane < warp_lanes; ++lane)
          if ((c.arrived >> lane & 1) && c.value[lane]) votes |= 1u << lane;
        return votes;
      });
}

}  // namespace emulator

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATOR_SITE) {
  const int lane = emulator::current->lane;
  return emulator::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), true, {file, line});
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_SITE) {
  const int lane = emulator::current->lane, source = lane - static_cast<int>(delta);
  return emulator::shuffle(mask, value, source, source >= (lane & ~(width - 1)), {file, line});
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_SITE) {
  const int lane = emulator::current->lane, source = lane + static_cast<int>(delta);
  return emulator::shuffle(mask, value, source, source < (lane & ~(width - 1)) + width, {file, line});
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, EMULATOR_SITE) {
  const int lane = emulator::current->lane, source = lane ^ flip;
  return emulator::shuffle(mask, value, source, source < (lane & ~(width - 1)) + width, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int mine, EMULATOR_SITE) {
  return emulator::vote(mask, mine != 0, {file, line});
}
inline int __any_sync(unsigned mask, int mine, EMULATOR_SITE) { return __ballot_sync(mask, mine, file, line) != 0; }
inline int __all_sync(unsigned mask, int mine, EMULATOR_SITE) { return __ballot_sync(mask, !mine, file, line) == 0; }

inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATOR_SITE) {
  emulator::do_together(
      emulator::Together::barrier, mask, {file, line}, [](emulator::Collective&) {}, [](emulator::Collective&) {},
      [](emulator::Collective&) { return 0; });
}
inline void __syncthreads(EMULATOR_SITE) { emulator::block_barrier({file, line}); }
inline void block_barrier(EMULATOR_SITE) { emulator::block_barrier({file, line}); }
