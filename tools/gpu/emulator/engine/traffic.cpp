// What a request of a warp costs: 32-byte sectors of global memory, wavefronts of shared memory.
#include <algorithm>

#include "machine.h"

namespace emulator {

namespace {

constexpr unsigned SECTOR_BYTES = 32, BANKS = 32;

Site& site(const char* what) { return machine.sites[{machine.at->line, what}]; }

}  // namespace

void count_global(const uint64_t* addresses, int count, unsigned size, bool write) {
    uint64_t sorted[LANES], bytes = 0, sectors = 0, end = 0, next = 0;
    std::copy(addresses, addresses + count, sorted);
    std::sort(sorted, sorted + count);
    for (int i = 0; i < count; ++i) {
        const uint64_t low = std::max(sorted[i], end), high = sorted[i] + size;
        if (high <= low) continue;
        bytes += high - low;
        end = high;
        const uint64_t first = std::max(low / SECTOR_BYTES, next), last = (high - 1) / SECTOR_BYTES;
        if (last >= first) sectors += last - first + 1;
        next = std::max(next, last + 1);
    }
    Site& here = site(write ? "global write" : "global read");
    ++here.requests;
    here.bytes += bytes;
    here.sectors += sectors;
    machine.width_bytes[size] += bytes;
    for (Array& array : machine.arrays)
        if (addresses[0] - array.base < array.bytes) {
            (write ? array.wrote : array.read) += bytes;
            (write ? array.write_sectors : array.read_sectors) += sectors;
        }
}

// Lanes go in phases of 128 bytes. In each a bank serves one 4-byte word a wavefront, to any number of lanes; ideally
// the words of a phase are spread evenly over the banks.
void count_shared(const uint64_t* addresses, const int* lanes, int count, unsigned size, bool write) {
    Site& here = site(write ? "shared write" : "shared read");
    ++here.requests;
    here.bytes += static_cast<uint64_t>(count) * size;
    const int phase_lanes = size == 16 ? 8 : size == 8 ? 16 : 32;
    for (int start = 0; start < count;) {
        const int phase = lanes[start] / phase_lanes;
        uint64_t words[BANKS][LANES];
        unsigned held[BANKS] = {}, most = 1, all = 0;
        for (; start < count && lanes[start] / phase_lanes == phase; ++start)
            for (uint64_t word = addresses[start] / 4; word <= (addresses[start] + size - 1) / 4; ++word) {
                uint64_t* column = words[word % BANKS];
                unsigned& rows = held[word % BANKS];
                if (std::find(column, column + rows, word) != column + rows) continue;
                column[rows++] = word;
                most = std::max(most, rows);
                ++all;
            }
        here.wavefronts += most;
        here.ideal += (all + BANKS - 1) / BANKS;
    }
}

}  // namespace emulator
