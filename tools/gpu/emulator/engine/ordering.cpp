// What happens before what: a vector-clock check of two accesses to the same bytes, of which one writes.
//
// Block barriers order all threads of a block, warp barriers the lanes that take part, a release and the acquire that
// reads it two threads anywhere. Shuffles, votes and matrix operations order nothing, as in CUDA's memory model.
#include <unordered_set>

#include "engine.h"

namespace emulator {

Stamp stamp_now(bool whole) {
  const Thread& self = *current;
  Stamp stamp;
  stamp.block = self.block->serial;
  stamp.epoch = self.block->epoch;
  stamp.clock = self.warp->clock;
  stamp.time = machine.time;
  stamp.warp = static_cast<uint16_t>(self.warp->number);
  stamp.lane = static_cast<uint8_t>(whole ? whole_warp : self.lane);
  return stamp;
}

View view_now(bool whole) {
  const Warp& warp = *current->warp;
  View view;
  view.from = stamp_now(whole);
  view.full_clock = warp.full_clock;
  if (warp.partial && !whole) view.lane_clock = warp.lane_clock[static_cast<size_t>(current->lane)];
  view.acquired = machine.history[view.from.block].acquires.size();
  return view;
}

void warp_synchronized(Warp& warp, uint32_t mask) {
  ++warp.clock;
  if (!(warp.alive & ~mask)) {
    warp.full_clock = warp.clock;
    return;
  }
  if (!warp.partial) {
    warp.partial = true;
    warp.lane_clock.assign(warp_lanes, std::vector<uint32_t>(warp_lanes, 0));
  }
  std::vector<uint32_t> joined(warp_lanes, 0);
  for (size_t reader = 0; reader < warp_lanes; ++reader)
    if (mask >> reader & 1)
      for (size_t writer = 0; writer < warp_lanes; ++writer)
        joined[writer] = std::max(joined[writer], mask >> writer & 1 ? warp.clock : warp.lane_clock[reader][writer]);
  for (size_t reader = 0; reader < warp_lanes; ++reader)
    if (mask >> reader & 1) warp.lane_clock[reader] = joined;
}

namespace {

// Was `past` before what the viewer did at `view`? The viewer's own block.
bool before_in_block(const Stamp& past, const View& view) {
  if (past.warp == view.from.warp && past.lane == view.from.lane && past.lane != whole_warp) return past.time <= view.from.time;
  if (past.epoch < view.from.epoch) return true;
  if (past.warp != view.from.warp || past.epoch > view.from.epoch) return false;
  uint32_t seen = view.full_clock;
  if (past.lane != whole_warp && !view.lane_clock.empty()) seen = std::max(seen, view.lane_clock[past.lane]);
  return past.clock < seen;
}

// Follow the acquires back, each release once.
bool before(const Stamp& past, const View& view, std::unordered_set<uint64_t>& seen) {
  if (past.block == view.from.block) return before_in_block(past, view);
  const auto& acquires = machine.history[view.from.block].acquires;
  for (size_t i = std::min(view.acquired, acquires.size()); i-- > 0;) {
    const View& source = acquires[i].view;
    if (!before_in_block(acquires[i].by, view)) continue;
    if (seen.insert(static_cast<uint64_t>(source.from.block) << 32 | source.from.time).second && before(past, source, seen)) return true;
  }
  return false;
}

// The common case without building a View.
bool before_now(const Stamp& past, bool whole) {
  const Thread& self = *current;
  if (past.block == self.block->serial) {
    if (past.epoch < self.block->epoch) return true;
    if (past.warp != self.warp->number) return false;
    if (past.lane == self.lane && !whole) return true;
    uint32_t seen = self.warp->full_clock;
    if (self.warp->partial && !whole && past.lane != whole_warp)
      seen = std::max(seen, self.warp->lane_clock[static_cast<size_t>(self.lane)][past.lane]);
    return past.clock < seen;
  }
  std::unordered_set<uint64_t> seen;
  return before(past, view_now(whole), seen);
}

Stamp reader_of(const Cell& cell) {
  Stamp stamp;
  stamp.block = cell.read_block;
  stamp.epoch = cell.read_epoch;
  stamp.clock = cell.read_clock;
  stamp.time = cell.read_time;
  stamp.warp = cell.read_warp;
  stamp.lane = cell.read_lane;
  return stamp;
}

void race(const char* first, const char* second, const Stamp& other, bool shared, const char* what, Site site) {
  std::string text = std::string(second) + " " + what + " without a barrier after the " + first + " by " + describe(other);
  fault(shared ? "race in shared memory" : "race in global memory", text, site);
}

}  // namespace

void check_read(Cell& cell, bool whole, bool shared, const char* what, Site site) {
  const Thread& self = *current;
  if (cell.writer.block && !before_now(cell.writer, whole)) race("write", "a read of", cell.writer, shared, what, site);
  const uint32_t mine = whole ? 0xffffffffu : self.bit;
  if (cell.read_block != self.block->serial) {
    cell.read_by_blocks = cell.read_block != 0;
    cell.read_by_warps = false;
    cell.read_lanes = mine;
  } else if (cell.read_epoch != self.block->epoch) {
    cell.read_by_warps = false;
    cell.read_lanes = mine;
  } else if (cell.read_warp != self.warp->number) {
    cell.read_by_warps = true;
  } else if (cell.read_clock < self.warp->full_clock) {
    cell.read_lanes = mine;
  } else {
    cell.read_lanes |= mine;
  }
  cell.read_block = self.block->serial;
  cell.read_epoch = self.block->epoch;
  cell.read_clock = self.warp->clock;
  cell.read_time = machine.time;
  cell.read_warp = static_cast<uint16_t>(self.warp->number);
  cell.read_lane = static_cast<uint8_t>(whole ? whole_warp : self.lane);
}

void check_write(Cell& cell, bool whole, bool shared, const char* what, Site site) {
  const Thread& self = *current;
  if (cell.writer.block && !before_now(cell.writer, whole)) race("write", "a write to", cell.writer, shared, what, site);
  if (cell.read_block) {
    const bool here = cell.read_block == self.block->serial;
    const bool now = here && cell.read_epoch == self.block->epoch;
    if (cell.read_by_blocks || (now && cell.read_by_warps)) {
      race("reads", "a write to", reader_of(cell), shared, what, site);
    } else if (!here) {
      if (!before_now(reader_of(cell), whole)) race("read", "a write to", reader_of(cell), shared, what, site);
    } else if (now) {
      uint32_t others = cell.read_lanes & ~(whole ? 0u : self.bit);
      if (cell.read_warp != self.warp->number) {
        race("read", "a write to", reader_of(cell), shared, what, site);
      } else if (others && cell.read_clock >= self.warp->full_clock) {
        Stamp reader = reader_of(cell);
        bool unordered = !self.warp->partial || whole;
        for (uint8_t lane = 0; !unordered && lane < warp_lanes; ++lane) {
          reader.lane = lane;
          if (others >> lane & 1) unordered = !before_now(reader, whole);
        }
        if (unordered) race("read", "a write to", reader_of(cell), shared, what, site);
      }
    }
  }
  cell.writer = stamp_now(whole);
  cell.read_block = 0;
  cell.read_lanes = 0;
  cell.read_by_warps = cell.read_by_blocks = false;
}

}  // namespace emulator
