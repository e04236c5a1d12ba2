// Warp instructions put together from their lanes' accesses, and what each costs: 32-byte sectors, shared-memory wavefronts.
#include <algorithm>

#include "engine.h"

namespace emulator {

namespace {

constexpr size_t most_noted = 1024;  // a lane that has noted so many accesses pauses until its warp has caught up
constexpr unsigned sector_bytes = 32, banks = 32;

struct Footprint {
  uint64_t bytes = 0, sectors = 0;
};

Footprint footprint(const uint64_t* addresses, int count, unsigned size) {
  uint64_t sorted[warp_lanes];
  std::copy(addresses, addresses + count, sorted);
  if (!std::is_sorted(sorted, sorted + count)) std::sort(sorted, sorted + count);
  Footprint result;
  uint64_t end = 0, next_sector = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t low = std::max(sorted[i], end), high = sorted[i] + size;
    if (high <= low) continue;
    result.bytes += high - low;
    end = high;
    const uint64_t first = std::max(low / sector_bytes, next_sector), last = (high - 1) / sector_bytes;
    if (last >= first) result.sectors += last - first + 1;
    next_sector = std::max(next_sector, last + 1);
  }
  return result;
}

// Lanes go in phases of 128 bytes: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16. In each phase a bank serves one 4-byte
// word a wavefront, to any number of lanes; ideally the words of a phase are spread evenly over the banks.
void count_wavefronts(const uint64_t* addresses, const uint8_t* lanes, int count, unsigned size, SiteCount& here) {
  const int phase_lanes = size == 16 ? 8 : size == 8 ? 16 : 32;
  for (int start = 0; start < count;) {
    const int phase = lanes[start] / phase_lanes;
    uint64_t words[banks][warp_lanes];
    unsigned held[banks] = {}, most = 1, all = 0;
    for (; start < count && lanes[start] / phase_lanes == phase; ++start)
      for (uint64_t word = addresses[start] / 4; word <= (addresses[start] + size - 1) / 4; ++word) {
        uint64_t* column = words[word % banks];
        unsigned& rows = held[word % banks];
        if (std::find(column, column + rows, word) != column + rows) continue;
        column[rows++] = word;
        most = std::max(most, rows);
        ++all;
      }
    here.wavefronts += most;
    here.ideal += (all + banks - 1) / banks;
  }
}

bool same_instruction(const Access& a, const Access& b) {
  return a.site.line == b.site.line && a.space == b.space && a.size == b.size && a.site.file == b.site.file;
}

}  // namespace

void count_group(Site site, Space space, unsigned size, const uint64_t* addresses, const uint8_t* lanes, int count) {
  SiteCount& here = machine.sites[{site.file, site.line, space}];
  ++here.requests;
  if (space == Space::shared_read || space == Space::shared_write) {
    count_wavefronts(addresses, lanes, count, size, here);
    here.bytes += static_cast<uint64_t>(count) * size;
    return;
  }
  const Footprint print = footprint(addresses, count, size);
  here.bytes += print.bytes;
  here.sectors += print.sectors;
  machine.counters.width_bytes[size] += print.bytes;
  for (GlobalArray& array : machine.arrays) {
    if (addresses[0] - array.base >= array.bytes) continue;
    if (space == Space::global_write) {
      array.written += print.bytes;
      array.write_sectors += print.sectors;
    } else {
      array.read += print.bytes;
      array.read_sectors += print.sectors;
    }
    break;
  }
}

void note_access(Space space, uint64_t address, unsigned size, Site site) {
  Thread& self = *current;
  self.accesses.push_back({site, address, space, static_cast<uint8_t>(size)});
  if (self.accesses.size() < most_noted) return;
  self.warp->paused |= self.bit;
  wait_for_others();
}

// A warp instruction is what several lanes do at one line of the source. The lane with most left to do goes first, and
// takes along all lanes whose next access is of the same line, space and size.
void flush_accesses(Warp& warp) {
  size_t next[warp_lanes] = {};
  const size_t lanes = warp.lanes.size();
  for (;;) {
    size_t leader = 0, most = 0;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const size_t left = warp.lanes[lane].accesses.size() - next[lane];
      if (left > most) {
        most = left;
        leader = lane;
      }
    }
    if (!most) break;
    const Access first = warp.lanes[leader].accesses[next[leader]];
    uint64_t addresses[warp_lanes];
    uint8_t taken[warp_lanes];
    int count = 0;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const auto& accesses = warp.lanes[lane].accesses;
      if (next[lane] >= accesses.size() || !same_instruction(accesses[next[lane]], first)) continue;
      taken[count] = static_cast<uint8_t>(lane);
      addresses[count++] = accesses[next[lane]++].address;
    }
    count_group(first.site, first.space, first.size, addresses, taken, count);
  }
  for (Thread& thread : warp.lanes) thread.accesses.clear();
}

}  // namespace emulator
