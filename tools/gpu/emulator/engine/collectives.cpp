// Shuffles, votes, warp barriers and block barriers: who waits for whom, and what goes wrong.
#include "warp.h"

#include "engine.h"

namespace emulator {

void preempt_if_due();

namespace {

const char* name_of(Together what) {
  switch (what) {
    case Together::barrier: return "__syncwarp";
    case Together::shuffle: return "a shuffle";
    case Together::vote: return "a vote";
    case Together::match: return "a match";
    case Together::load_matrix: return "load_matrix_sync";
    case Together::store_matrix: return "store_matrix_sync";
    case Together::multiply: return "mma_sync";
    case Together::none: break;
  }
  return "nothing";
}

std::vector<Collective*> spare;

std::string hexadecimal(uint32_t mask) {
  char text[16];
  snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

}  // namespace

Collective* join(Together what, uint32_t mask, Site site) {
  Thread& self = *current;
  Warp& warp = *self.warp;
  if (!(mask & self.bit)) {
    fault("wrong mask", std::string(name_of(what)) + " with mask " + hexadecimal(mask) + " by a lane that isn't in it", site);
    mask = self.bit;  // it goes on alone
  }
  Collective* found = nullptr;
  for (Collective* open : warp.open) {
    if (open->done || (open->arrived & self.bit)) continue;
    if (open->mask == mask) found = open;
    else if (open->mask & mask)
      fault("wrong mask", std::string(name_of(what)) + " with mask " + hexadecimal(mask) + " while other lanes wait in " + name_of(open->what) +
            " with mask " + hexadecimal(open->mask), site);
  }
  if (found && found->what != what)
    fault("mixed collectives", std::string(name_of(what)) + " by one lane, " + name_of(found->what) + " by another of the same mask", site);
  if (!found) {
    if (spare.empty()) spare.push_back(new Collective);
    found = spare.back();
    spare.pop_back();
    found->what = what;
    found->mask = mask;
    found->arrived = found->left = 0;
    found->done = found->finished = false;
    found->site = site;
    found->pointer = 0;
    found->stride = 0;
    warp.open.push_back(found);
  }
  self.together = found;
  return found;
}

bool arrive(Collective* together) {
  Warp& warp = *current->warp;
  together->arrived |= current->bit;
  return !(together->mask & warp.alive & ~together->arrived);
}

void release(Collective* together) {
  if (together->done) return;
  Warp& warp = *current->warp;
  together->done = true;
  warp.ready |= together->arrived & warp.alive;
  if (!(warp.alive & ~together->arrived)) flush_accesses(warp);
  switch (together->what) {
    case Together::barrier:
      ++machine.counters.warp_barriers;
      warp_synchronized(warp, together->arrived);
      break;
    case Together::shuffle: ++machine.counters.shuffles; break;
    case Together::multiply: ++machine.counters.multiplies; break;
    case Together::vote: ++machine.counters.votes; break;
    default: break;
  }
  preempt_if_due();
}

void leave(Collective* together) {
  Thread& self = *current;
  self.together = nullptr;
  together->left |= self.bit;
  if (together->left != together->arrived) return;
  auto& open = self.warp->open;
  for (size_t i = 0; i < open.size(); ++i)
    if (open[i] == together) {
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  spare.push_back(together);
}

// Lanes that have finished are not waited for.
void lane_finished_collectives(Warp& warp) {
  for (Collective* open : warp.open)
    if (!open->done && !(open->mask & warp.alive & ~open->arrived)) release(open);
}

uint32_t shuffle_source_missing(Collective* together, int source, Site site) {
  fault("shuffle source", "a shuffle reads lane " + std::to_string(source) + ", which isn't among those that take part, " +
        hexadecimal(together->arrived), site);
  return 0;
}

namespace {

void open_barrier(Block& block) {
  ++machine.counters.block_barriers;
  ++machine.progress;
  block.epoch = machine.next_epoch++;
  block.at_barrier = 0;
  for (Warp& warp : block.warps) {
    flush_accesses(warp);
    warp.ready |= warp.at_barrier;
    warp.at_barrier = 0;
  }
}

}  // namespace

void block_barrier(Site site) {
  Thread& self = *current;
  Block& block = *self.block;
  for (Collective* open : self.warp->open)
    if (!open->done && (open->mask & self.bit) && !(open->arrived & self.bit))
      fault("mixed collectives", std::string("__syncthreads by one lane while others wait for it in ") + name_of(open->what), site);
  self.warp->at_barrier |= self.bit;
  if (++block.at_barrier == block.alive) {
    open_barrier(block);
    preempt_if_due();
  } else {
    wait_for_others();
  }
}

void barrier_without(Block& block) {
  if (block.alive && block.at_barrier == block.alive) open_barrier(block);
}

}  // namespace emulator
