// Global and shared memory: extents, alignment, what may be read and written, and when others see it.
#include <algorithm>

#include "machine.h"

namespace emulator {

namespace {

std::string at(const Array& array, uint64_t address, unsigned size) {
    return std::to_string(size) + " bytes at byte " + std::to_string(static_cast<int64_t>(address - array.base)) +
           " of " + array.name + ", which has " + std::to_string(array.bytes);
}

struct Place {
    Array* array = nullptr;
    Piece* piece = nullptr;
    uint64_t offset = 0;  // in the piece
    explicit operator bool() const { return piece; }
};

Place locate(uint64_t address, unsigned size, const char* what) {
    Place place;
    Array* nearest = nullptr;
    for (Array& array : machine.arrays) {
        const auto away = [&](const Array& one) { return std::abs(static_cast<int64_t>(address - one.base)); };
        if (!nearest || away(array) < away(*nearest)) nearest = &array;
        if (address - array.base < array.bytes) place.array = &array;
    }
    if (!place.array || address - place.array->base + size > place.array->bytes) {
        const Array* close = place.array ? place.array : nearest;
        fault("out of bounds", std::string(what) + " of " + (close ? at(*close, address, size) : "no array"));
        return place;
    }
    if (address % size) {
        fault("misaligned", std::string(what) + " of " + at(*place.array, address, size));
        return place;
    }
    const uint64_t offset = address - place.array->base;
    auto& pieces = place.array->pieces;  // in order
    const auto next = std::upper_bound(pieces.begin(), pieces.end(), offset,
                                       [](uint64_t value, const Piece& piece) { return value < piece.offset; });
    if (next != pieces.begin() && offset + size <= next[-1].offset + next[-1].bytes) {
        place.piece = &next[-1];
        place.offset = offset - next[-1].offset;
        return place;
    }
    const std::string where = at(*place.array, address, size);
    fault("unforeseen address", std::string(what) + " of " + where + ", where none is expected");
    return place;
}

// Whether stores wait, and loads may see what was there before.
bool waits(const Array& array) { return machine.request.weak && array.role >= INOUT; }

void arrive(const Store& store) {
    const Place place = locate(store.address, store.size, "a write");
    if (!place) return;
    ++machine.time;
    machine.progress = machine.polls;
    std::memcpy(place.piece->data + place.offset, store.bytes, store.size);
    std::fill_n(place.piece->written.begin() + static_cast<int64_t>(place.offset), store.size, 1);
    for (unsigned k = 0; k < store.size && !place.piece->history.empty(); k += 4) {
        uint32_t value;
        std::memcpy(&value, store.bytes + k, 4);
        place.piece->history[(place.offset + k) / 4].push_back({machine.time, store.writer, value, true});
    }
}

void arrive_all(Buffer& buffer) {
    for (const Store& store : buffer) arrive(store);
    buffer.clear();
}

void move(Buffer& from, Buffer& to) {
    to.insert(to.end(), from.begin(), from.end());
    from.clear();
}

const Store* newest(const Buffer& buffer, uint64_t address, unsigned size) {
    for (auto store = buffer.rbegin(); store != buffer.rend(); ++store)
        if (store->meets(address, size)) return &*store;
    return nullptr;
}

// What a thread sees at 4 bytes; false if nothing was written there.
bool see(Warp& warp, int lane, const Place& place, uint64_t address, uint32_t& value, bool acquires) {
    for (const Buffer* buffer : {&warp.lanes[lane].stores, &warp.stores, &warp.block->stores})
        if (const Store* store = newest(*buffer, address, 4)) {
            std::memcpy(&value, store->bytes + (address - store->address), 4);
            return true;
        }
    uint64_t& view = warp.lanes[lane].view;
    uint64_t seen = machine.time;
    if (machine.chance(machine.stale)) seen = view;
    const auto& versions = place.piece->history[place.offset / 4];
    size_t k = versions.size() - 1;
    while (versions[k].time > seen && versions[k].writer != warp.thread(lane)) --k;
    value = versions[k].value;
    if (acquires) view = std::max(view, versions[k].time);
    return versions[k].written;
}

}  // namespace

void read_global(Warp& warp, int lane, uint64_t address, void* to, unsigned size, bool acquires) {
    std::memset(to, 0xff, size);
    const Place place = locate(address, size, "a read");
    if (!place) return;
    if (place.array->role == OUT) return fault("output read", "a read of " + at(*place.array, address, size));
    bool written = true;
    if (waits(*place.array)) {
        if (size % 4) return fault("machine", "reads of fewer than 4 bytes of scratch arrays aren't modelled");
        for (unsigned k = 0; k < size; k += 4) {
            uint32_t value;
            Place part = place;
            part.offset += k;
            written = see(warp, lane, part, address + k, value, acquires) && written;
            std::memcpy(static_cast<char*>(to) + k, &value, 4);
        }
    } else {
        std::memcpy(to, place.piece->data + place.offset, size);
        if (place.array->role == SCRATCH)
            for (unsigned k = 0; k < size; ++k) written = written && place.piece->written[place.offset + k];
    }
    if (!written) fault("unwritten global memory read", "a read of " + at(*place.array, address, size));
}

void write_global(Warp& warp, int lane, uint64_t address, const void* from, unsigned size, bool releases) {
    const Place place = locate(address, size, "a write");
    if (!place) return;
    Array& array = *place.array;
    if (array.role == IN) return fault("input written", "a write of " + at(array, address, size));
    Store store{address, warp.thread(lane), size, {}};
    std::memcpy(store.bytes, from, size);
    if (array.role == OUT) {
        bool twice = false, unwanted = false;
        for (uint64_t k = place.offset; k < place.offset + size; ++k) {
            twice |= place.piece->written[k];
            unwanted |= place.piece->expected && !place.piece->expected[k];
        }
        if (unwanted) fault("written outside", "a write of " + at(array, address, size));
        else if (twice) fault("written twice", "a second write of " + at(array, address, size));
        arrive(store);
    } else if (releases) {
        for (Buffer* buffer : {&warp.block->stores, &warp.stores, &warp.lanes[lane].stores}) arrive_all(*buffer);
        arrive(store);
    } else if (waits(array)) {
        if (size % 4) return fault("machine", "writes of fewer than 4 bytes of scratch arrays aren't modelled");
        warp.lanes[lane].stores.push_back(store);
    } else {
        arrive(store);
    }
}

uint32_t add_global(Warp& warp, int lane, uint64_t address, uint32_t value) {
    const Place place = locate(address, 4, "an atomic");
    if (!place) return 0;
    uint32_t before;
    std::memcpy(&before, place.piece->data + place.offset, 4);
    value += before;
    Store store{address, warp.thread(lane), 4, {}};
    std::memcpy(store.bytes, &value, 4);
    arrive(store);
    return before;
}

namespace {

bool in_shared(const Block& block, uint32_t address, unsigned size, const char* what) {
    const std::string where = std::string(what) + " of " + std::to_string(size) + " bytes at byte " +
                              std::to_string(static_cast<int32_t>(address)) + " of shared memory, which has " +
                              std::to_string(block.shared.size());
    if (uint64_t{address} + size > block.shared.size()) return fault("out of bounds", where), false;
    if (address % size) return fault("misaligned", where), false;
    return true;
}

void arrive_shared(Block& block, const Store& store) {
    std::memcpy(block.shared.data() + store.address, store.bytes, store.size);
    std::memset(block.written.data() + store.address, 1, store.size);
}

}  // namespace

void read_shared(Warp& warp, int lane, uint32_t address, void* to, unsigned size) {
    std::memset(to, 0xff, size);
    const Block& block = *warp.block;
    if (!in_shared(block, address, size, "a read")) return;
    auto* bytes = static_cast<unsigned char*>(to);
    for (unsigned k = 0; k < size; ++k) {
        const Store* own = newest(warp.lanes[lane].shared, address + k, 1);
        bytes[k] = own ? own->bytes[address + k - own->address] : block.shared[address + k];
        if (!own && !block.written[address + k])
            return fault("unwritten shared memory read", "a read of shared byte " + std::to_string(address + k));
    }
}

void write_shared(Warp& warp, int lane, uint32_t address, const void* from, unsigned size) {
    if (!in_shared(*warp.block, address, size, "a write")) return;
    Store store{address, 0, size, {}};
    std::memcpy(store.bytes, from, size);
    if (machine.request.weak) warp.lanes[lane].shared.push_back(store);
    else arrive_shared(*warp.block, store);
}

namespace {

void land_one(Warp& warp, int lane, size_t k) {
    auto& copies = warp.lanes[lane].copies;
    const Copy copy = copies[k];
    copies.erase(copies.begin() + static_cast<int64_t>(k));
    unsigned char bytes[16] = {};
    if (copy.valid == 16) read_global(warp, lane, copy.source, bytes, 16, false);
    write_shared(warp, lane, copy.target, bytes, 16);
}

}  // namespace

void land(Warp& warp, int lane, unsigned groups) {
    auto& copies = warp.lanes[lane].copies;
    for (size_t k = 0; k < copies.size();)
        if (copies[k].group < groups) land_one(warp, lane, k);
        else ++k;
}

void meet_warp(Warp& warp, Mask mask) {
    uint64_t view = 0;
    for_lanes(mask, [&](int lane) {
        Lane& own = warp.lanes[lane];
        move(own.stores, warp.stores);
        for (const Store& store : own.shared) arrive_shared(*warp.block, store);
        own.shared.clear();
        view = std::max(view, own.view);
    });
    for_lanes(mask, [&](int lane) { warp.lanes[lane].view = view; });
}

void meet_block(Block& block) {
    uint64_t view = 0;
    for (Warp& warp : block.warps) {
        meet_warp(warp, ALL);
        move(warp.stores, block.stores);
        for (const Lane& lane : warp.lanes) view = std::max(view, lane.view);
    }
    for (Warp& warp : block.warps)
        for (Lane& lane : warp.lanes) lane.view = view;
}

namespace {

// One of a buffer's stores, which overtakes any that is to other bytes.
size_t any_of(const Buffer& buffer) {
    size_t k = machine.below(buffer.size());
    for (size_t earlier = 0; earlier < k; ++earlier)
        if (buffer[earlier].meets(buffer[k].address, buffer[k].size)) k = earlier;
    return k;
}

// Of a buffer of global stores, unless an older one holds a store to the same bytes.
void send_any(Buffer& buffer, const std::vector<const Buffer*>& older) {
    if (buffer.empty() || !machine.chance(machine.lands)) return;
    const size_t k = any_of(buffer);
    for (const Buffer* before : older)
        if (newest(*before, buffer[k].address, buffer[k].size)) return;
    arrive(buffer[k]);
    buffer.erase(buffer.begin() + static_cast<int64_t>(k));
}

}  // namespace

void by_chance(Warp& warp) {
    send_any(warp.block->stores, {});
    send_any(warp.stores, {&warp.block->stores});
    for (int lane = 0; lane < LANES; ++lane) {
        Lane& own = warp.lanes[lane];
        send_any(own.stores, {&warp.stores, &warp.block->stores});
        if (!own.copies.empty() && machine.chance(machine.lands))
            land_one(warp, lane, machine.below(own.copies.size()));
        if (own.shared.empty() || !machine.chance(machine.lands)) continue;
        const size_t k = any_of(own.shared);
        arrive_shared(*warp.block, own.shared[k]);
        own.shared.erase(own.shared.begin() + static_cast<int64_t>(k));
    }
}

void leave_block(Block& block) {
    meet_block(block);
    arrive_all(block.stores);
}

void prepare_arrays() {
    machine.arrays.clear();
    for (int i = 0; i < machine.request.arrays; ++i) {
        const ArrayRequest& request = machine.request.array[i];
        Array array{request.name, request.base, request.bytes, request.role, {}};
        for (int p = 0; p < request.pieces; ++p) {
            Piece piece{request.offsets[p], request.sizes[p], request.data[p], request.expected[p], {}, {}};
            if (array.role != IN) piece.written.assign(piece.bytes, array.role == INOUT);
            if (waits(array))
                for (uint64_t k = 0; k + 4 <= piece.bytes; k += 4) {
                    uint32_t value;
                    std::memcpy(&value, piece.data + k, 4);
                    piece.history.push_back({{0, ~0ull, value, array.role == INOUT}});
                }
            array.pieces.push_back(std::move(piece));
        }
        machine.arrays.push_back(std::move(array));
    }
}

void finish_arrays() {
    for (Array& array : machine.arrays) {
        if (array.role != OUT) continue;
        uint64_t missing = 0, first = 0;
        for (Piece& piece : array.pieces)
            for (uint64_t k = 0; k < piece.bytes; ++k) {
                if (piece.written[k] || (piece.expected && !piece.expected[k])) continue;
                if (!missing++) first = piece.offset + k;
            }
        machine.at = nullptr;
        if (missing)
            fault("never written",
                  std::to_string(missing) + " bytes of " + array.name + ", the first at byte " + std::to_string(first));
    }
}

}  // namespace emulator
