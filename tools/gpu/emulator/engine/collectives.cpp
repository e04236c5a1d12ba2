// What lanes of a warp do together: shuffles, votes, and WMMA.
#include <algorithm>
#include <cmath>

#include "halves.h"
#include "machine.h"

namespace emulator {

namespace {

void add(const std::string& name, Kind kind, Handler run, std::vector<int> sizes) {
    operations()[name] = {kind, run, std::move(sizes)};
}

// Destination, whether its source takes part, value, by how many lanes or which one, limits, members.
template <bool DOWN>
void shuffle(Warp& warp, const Instruction& i, Mask mask) {
    ++machine.counts["shuffles"];
    uint32_t values[LANES];
    std::copy_n(warp.values<uint32_t>(i, 2), LANES, values);
    for_lanes(mask, [&](int lane) {
        const uint32_t by = warp.values<uint32_t>(i, 3)[lane], limits = warp.values<uint32_t>(i, 4)[lane];
        if (limits != 31) fault("machine", "shuffles of a part of a warp aren't modelled");
        int source = static_cast<int>(DOWN ? unsigned(lane) + by : by % LANES);
        const bool inside = source < LANES;
        if (!inside) source = lane;
        if (!(mask >> source & 1))
            fault("shuffle source", "a lane takes what lane " + std::to_string(source) + " doesn't give");
        warp.values<uint32_t>(i, 0)[lane] = values[source];
        warp.values<uint8_t>(i, 1)[lane] = inside;
    });
}

Mask ballot(Warp& warp, const Instruction& i, Mask mask) {
    ++machine.counts["votes"];
    Mask votes = 0;
    for_lanes(mask, [&](int lane) { votes |= Mask(warp.values<uint8_t>(i, 1)[lane] != 0) << lane; });
    return votes;
}

// Where the element of a row and a column lies in the lanes: some place that no GPU has it.
struct Spot {
    int lane, slot;
    explicit Spot(int element) : lane((element * 37 + 11) % 256 / 8), slot((element * 37 + 11) % 8) {}
};

// A matrix in shared memory: each lane brings the same address and stride.
struct Matrix {
    uint32_t address = 0, stride = 0;
    unsigned element_bytes;
    bool columns;

    Matrix(Warp& warp, const Instruction& i, Mask mask, int place, int stride_place, unsigned bytes, bool by_columns)
        : element_bytes(bytes), columns(by_columns) {
        address = warp.values<uint32_t>(i, place)[0] + uint32_t(i.offset);
        stride = warp.values<uint32_t>(i, stride_place)[0];
        if (mask != ALL) fault("wrong mask", "a matrix operation without all lanes of the warp");
        for_lanes(mask, [&](int lane) {
            if (warp.values<uint32_t>(i, place)[lane] + uint32_t(i.offset) != address ||
                warp.values<uint32_t>(i, stride_place)[lane] != stride)
                fault("matrix pointer", "lanes bring different pointers or strides to a matrix operation");
        });
        if (address % 32 || stride * element_bytes % 16)
            fault("matrix pointer", "a matrix begins at a multiple of 32 bytes, its rows at multiples of 16");
    }
    uint32_t at(int element) const {
        const int row = element / 16, column = element % 16;
        return address + uint32_t(columns ? column : row) * stride * element_bytes +
               uint32_t(columns ? row : column) * element_bytes;
    }
    // Two-byte elements as LDSM moves them, others as mma's own layout has them: two neighbours of a line in each
    // quarter.
    void count(bool write) const {
        uint64_t addresses[LANES];
        int lanes[LANES];
        for (int lane = 0; lane < LANES; ++lane) lanes[lane] = lane;
        const uint64_t line = uint64_t{stride} * element_bytes;
        if (element_bytes == 2) {
            for (int lane = 0; lane < LANES; ++lane)
                addresses[lane] = address + uint64_t(lane % 16) * line + uint64_t(lane / 16) * 16;
            return count_shared(addresses, lanes, LANES, 16, write);
        }
        for (int quarter = 0; quarter < 4; ++quarter) {
            for (int lane = 0; lane < LANES; ++lane)
                addresses[lane] = address + uint64_t(lane / 4 + quarter % 2 * 8) * line +
                                  uint64_t(lane % 4 * 2 + quarter / 2 * 8) * element_bytes;
            count_shared(addresses, lanes, LANES, 2 * element_bytes, write);
        }
    }
};

// COPIES: of each element, as float16 has two.
template <int COPIES, bool COLUMNS>
void load_matrix(Warp& warp, const Instruction& i, Mask mask) {
    constexpr int WORDS = 4 * COPIES;
    const Matrix matrix(warp, i, mask, WORDS, WORDS + 1, 2, COLUMNS);
    for (int element = 0; element < 256; ++element) {
        const Spot spot(element);
        for (int copy = 0; copy < COPIES; ++copy) {
            const int lane = copy ? 31 - spot.lane : spot.lane, slot = copy * 8 + spot.slot;
            uint16_t value;
            read_shared(warp, lane, matrix.at(element), &value, 2);
            warp.values<uint16_t>(i, slot / 2)[lane * 2 + slot % 2] = value;
        }
    }
    matrix.count(false);
}

template <bool COLUMNS>
void store_matrix(Warp& warp, const Instruction& i, Mask mask) {
    const Matrix matrix(warp, i, mask, 0, 9, 4, COLUMNS);
    for (int element = 0; element < 256; ++element) {
        const Spot spot(element);
        write_shared(warp, spot.lane, matrix.at(element), warp.values<float>(i, 1 + spot.slot) + spot.lane, 4);
    }
    matrix.count(true);
}

// As tensor cores are known to add: the accumulator and the products of four terms (eight on later GPUs) are aligned to
// the largest of them, cut to 24 bits below it, added, and the sum is cut to single precision.
float cut_sum(const float* products, int count, float start) {
    double largest = std::fabs(static_cast<double>(start));
    for (int k = 0; k < count; ++k) largest = std::fmax(largest, std::fabs(static_cast<double>(products[k])));
    if (!(largest > 0) || !std::isfinite(largest)) {
        float sum = start;
        for (int k = 0; k < count; ++k) sum += products[k];
        return sum;
    }
    const double unit = std::ldexp(1.0, std::ilogb(largest) - 24);
    double sum = std::trunc(static_cast<double>(start) / unit);
    for (int k = 0; k < count; ++k) sum += std::trunc(static_cast<double>(products[k]) / unit);
    sum *= unit;
    const float nearest = static_cast<float>(sum);
    return std::fabs(static_cast<double>(nearest)) > std::fabs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
}

template <int COPIES>
void multiply(Warp& warp, const Instruction& i, Mask) {
    ++machine.counts["multiplies"];
    constexpr int WORDS = 4 * COPIES;
    float A[256], B[256], C[256];
    for (int element = 0; element < 256; ++element) {
        const Spot spot(element);
        const auto take = [&](int first) {
            const uint16_t bits = warp.values<uint16_t>(i, first + spot.slot / 2)[spot.lane * 2 + spot.slot % 2];
            if (COPIES > 1 &&
                warp.values<uint16_t>(i, first + 4 + spot.slot / 2)[(31 - spot.lane) * 2 + spot.slot % 2] != bits)
                fault("fragment copies differ", "the two copies of an element of a fragment differ");
            return COPIES > 1 ? half_to_float(bits) : bfloat16_to_float(bits);
        };
        A[element] = take(8);
        B[element] = take(8 + WORDS);
        C[element] = warp.values<float>(i, 8 + 2 * WORDS + spot.slot)[spot.lane];
    }
    for (int element = 0; element < 256; ++element) {
        float sum = C[element], products[4];
        for (int k = 0; k < 16; k += 4) {
            for (int j = 0; j < 4; ++j) products[j] = A[element / 16 * 16 + k + j] * B[(k + j) * 16 + element % 16];
            sum = cut_sum(products, 4, sum);
        }
        const Spot spot(element);
        warp.values<float>(i, spot.slot)[spot.lane] = sum;
    }
}

const bool registered = [] {
    add("shfl.sync.down.b32", Kind::collective, shuffle<true>, {4, 1, 4, 4, 4, 4});
    add("shfl.sync.idx.b32", Kind::collective, shuffle<false>, {4, 1, 4, 4, 4, 4});
    add("vote.sync.ballot.b32", Kind::collective, [](Warp& warp, const Instruction& i, Mask mask) {
        const Mask votes = ballot(warp, i, mask);
        for_lanes(mask, [&](int lane) { warp.values<uint32_t>(i, 0)[lane] = votes; });
    }, {4, 1, 4});
    add("vote.sync.all.pred", Kind::collective, [](Warp& warp, const Instruction& i, Mask mask) {
        const bool all = ballot(warp, i, mask) == mask;
        for_lanes(mask, [&](int lane) { warp.values<uint8_t>(i, 0)[lane] = all; });
    }, {1, 1, 4});
    add("vote.sync.any.pred", Kind::collective, [](Warp& warp, const Instruction& i, Mask mask) {
        const bool any = ballot(warp, i, mask) != 0;
        for_lanes(mask, [&](int lane) { warp.values<uint8_t>(i, 0)[lane] = any; });
    }, {1, 1, 4});
    add("bar.warp.sync", Kind::warp_barrier, nullptr, {4});
    for (const char* name : {"barrier.sync.aligned", "bar.sync"}) add(name, Kind::block_barrier, nullptr, {4});
    for (const char* matrix : {"a", "b"})
        for (const bool columns : {false, true}) {
            const std::string name = std::string("wmma.load.") + matrix + ".sync.aligned." +
                                     (columns ? "col" : "row") + ".m16n16k16.shared.";
            add(name + "bf16", Kind::aligned, columns ? load_matrix<1, true> : load_matrix<1, false>,
                std::vector<int>(6, 4));
            add(name + "f16", Kind::aligned, columns ? load_matrix<2, true> : load_matrix<2, false>,
                std::vector<int>(10, 4));
        }
    for (const char* order : {"row.row", "row.col"}) {
        const std::string name = std::string("wmma.mma.sync.aligned.") + order + ".m16n16k16.f32.";
        add(name + "bf16.bf16.f32", Kind::aligned, multiply<1>, std::vector<int>(24, 4));
        add(name + "f32", Kind::aligned, multiply<2>, std::vector<int>(32, 4));
    }
    const std::vector<int> sizes(10, 4);
    add("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32", Kind::aligned, store_matrix<false>, sizes);
    add("wmma.store.d.sync.aligned.col.m16n16k16.shared.f32", Kind::aligned, store_matrix<true>, sizes);
    return true;
}();

}  // namespace

}  // namespace emulator
