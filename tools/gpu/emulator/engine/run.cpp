// Who goes next, and the entry from Python.
#include <algorithm>
#include <numeric>

#include "machine.h"

namespace emulator {

Machine machine;

void fault(const std::string& kind, const std::string& message) {
    const std::string place = machine.at ? ", line " + std::to_string(machine.at->line) : "";
    for (Fault& known : machine.faults)
        if (known.kind == kind && known.message.size() >= place.size() &&
            !known.message.compare(known.message.size() - place.size(), place.size(), place)) {
            ++known.count;
            return;
        }
    machine.faults.push_back({kind, message + place, 1});
}

namespace {

constexpr uint64_t PATIENCE = 20000;  // polls in a row between which nothing reaches memory
constexpr int TURN = 200;              // instructions of a group at the most

const Operation& operation(const Instruction& i) { return *machine.operations[static_cast<size_t>(i.operation)]; }
const Instruction& instruction(const Warp& warp, int lane) { return machine.request.program[warp.lanes[lane].place]; }

void advance(Warp& warp, Mask mask) {
    for_lanes(mask, [&](int lane) { ++warp.lanes[lane].place; });
}

void start(Block& block, uint32_t index) {
    const Request& request = machine.request;
    static uint64_t serial;
    block.index = index;
    block.serial = ++serial;
    block.shared.assign(request.shared_bytes, 0xff);
    block.written.assign(request.shared_bytes, 0);
    block.warps.assign((request.threads + LANES - 1) / LANES, Warp{});
    for (size_t w = 0; w < block.warps.size(); ++w) {
        Warp& warp = block.warps[w];
        warp.block = &block;
        warp.index = static_cast<int>(w);
        warp.registers.assign(static_cast<size_t>(request.register_bytes), 0xa5);
        const uint32_t first = static_cast<uint32_t>(w) * LANES;
        warp.all = warp.live = request.threads - first >= LANES ? ALL : (1u << (request.threads - first)) - 1;
        for (Lane& lane : warp.lanes) lane.view = machine.time;
        // %tid, %ctaid, %ntid, %nctaid, x y z of each.
        const uint32_t values[] = {0, 0, 0, index, 0, 0, request.threads, 1, 1, request.grid, 1, 1};
        for (int s = 0; s < 12; ++s) {
            auto* row = reinterpret_cast<uint32_t*>(warp.row(request.special)) + s * LANES;
            for (uint32_t lane = 0; lane < LANES; ++lane) row[lane] = s == 0 ? first + lane : values[s];
        }
    }
}

// The lanes that take part in what a lane waits at, if all are there; else none.
Mask complete(Warp& warp, int lane) {
    const Instruction& i = instruction(warp, lane);
    const Operation& op = operation(i);
    Mask there = 0;  // that wait at the same
    for_lanes(warp.waiting, [&](int other) {
        const Instruction& its = instruction(warp, other);
        const bool same = op.kind == Kind::warp_barrier ? operation(its).kind == Kind::warp_barrier : &its == &i;
        there |= Mask(same) << other;
    });
    if (op.kind == Kind::aligned || op.kind == Kind::block_barrier) return there == warp.live ? there : 0;
    const Mask named = warp.values<Mask>(i, int(op.sizes.size()) - 1)[lane];
    if (!(named >> lane & 1)) {
        fault("wrong mask", "a lane isn't a member of its own mask");
        return 1u << lane;
    }
    const Mask members = named & warp.live;
    return (members & ~there) ? 0 : members;
}

// Let go what all have come to. Returns whether any were.
bool meet(Warp& warp) {
    for (Mask left = warp.waiting; left;) {
        const int lane = __builtin_ctz(left);
        const Instruction& i = instruction(warp, lane);
        const Kind kind = operation(i).kind;
        if (kind == Kind::block_barrier) return false;
        const Mask members = complete(warp, lane);
        if (!members) {
            left &= left - 1;
            continue;
        }
        machine.at = &i;
        if (kind == Kind::warp_barrier) {
            ++machine.counts["warp_barriers"];
            meet_warp(warp, members);
        } else {
            operation(i).run(warp, i, members);
        }
        warp.waiting &= ~members;
        advance(warp, members);
        return true;
    }
    return false;
}

// Hardware counts no threads that have left, but PTX promises nothing of barriers without them.
bool meet(Block& block) {
    bool any = false, all = true;
    for (Warp& warp : block.warps) {
        all = all && warp.live == warp.all;
        if (!warp.live) continue;
        const int lane = __builtin_ctz(warp.live);
        if (!warp.waiting || operation(instruction(warp, lane)).kind != Kind::block_barrier || !complete(warp, lane))
            return false;
        any = true;
        machine.at = &instruction(warp, lane);
    }
    if (!any) return false;
    if (!all) fault("barrier without all threads", "some threads of the block have left before a barrier of all");
    ++machine.counts["block_barriers"];
    meet_block(block);
    for (Warp& warp : block.warps) {
        advance(warp, warp.waiting);
        warp.waiting = 0;
    }
    return true;
}

// The lanes that go next: all at the earliest place; or some at the place of any.
Mask choose(Warp& warp, int& until) {
    const Mask ready = warp.ready();
    const bool together = !machine.request.weak || machine.chance(0.25);
    int leader = __builtin_ctz(ready);
    if (together) {
        for_lanes(ready, [&](int lane) {
            if (warp.lanes[lane].place < warp.lanes[leader].place) leader = lane;
        });
    } else {
        while (!(ready >> (leader = static_cast<int>(machine.below(LANES))) & 1)) {
        }
    }
    Mask group = 0;
    until = machine.request.instructions;
    for_lanes(ready, [&](int lane) {
        if (warp.lanes[lane].place == warp.lanes[leader].place) group |= 1u << lane;
        else if (together) until = std::min(until, warp.lanes[lane].place);
    });
    if (!together && machine.chance(0.75)) group &= static_cast<Mask>(machine.random()) | 1u << leader;
    return group;
}

// Execute until the group meets, parts, leaves, polls or has had its turn.
void go(Warp& warp) {
    int until;
    const Mask group = choose(warp, until);
    int place = warp.lanes[__builtin_ctz(group)].place;
    const int turn = machine.request.weak ? 1 + static_cast<int>(machine.below(TURN)) : TURN;
    const auto stay = [&](Mask mask, int where) {
        for_lanes(mask, [&](int lane) { warp.lanes[lane].place = where; });
    };
    for (int n = 0; n < turn && place < until; ++n) {
        const Instruction& i = machine.request.program[place];
        const Operation& op = operation(i);
        Mask active = group;
        if (i.guard >= 0) {
            const uint8_t* guard = warp.row(i.guard);
            active = 0;
            for_lanes(group, [&](int lane) { active |= Mask((guard[lane] != 0) != (i.negated != 0)) << lane; });
        }
        machine.at = &i;
        ++place;
        if (op.kind == Kind::plain) {
            if (active) op.run(warp, i, active);
            if (op.polls) {
                ++machine.polls;
                break;
            }
            continue;
        }
        if (!active) continue;
        if (op.kind == Kind::branch && active == group) {
            place = i.target;
            continue;
        }
        stay(group & ~active, place);
        if (op.kind == Kind::branch) {
            stay(active, i.target);
        } else if (op.kind == Kind::leave) {
            warp.live &= ~active;
        } else {
            stay(active, place - 1);
            warp.waiting |= active;
        }
        return;
    }
    stay(group, place);
}

void execute() {
    const Request& request = machine.request;
    std::vector<Block> blocks(request.resident);
    std::vector<Block*> resident;
    uint32_t started = 0;
    size_t turn = 0;
    const auto start_next = [&](Block& block) {
        if (started == request.grid) return false;
        start(block, request.order[started++]);
        return true;
    };
    for (Block& block : blocks)
        if (start_next(block)) resident.push_back(&block);
    size_t stuck = 0;  // turns in a row in which nothing could be done
    while (!resident.empty()) {
        const size_t which = request.weak ? machine.below(resident.size()) : turn++ % resident.size();
        Block& block = *resident[which];
        bool moved = false, live = false;
        const size_t only = request.weak ? machine.below(block.warps.size()) : block.warps.size();
        for (size_t w = 0; w < block.warps.size(); ++w) {
            Warp& warp = block.warps[w];
            live = live || warp.live;
            if (only != block.warps.size() && w != only) continue;
            if (request.weak) by_chance(warp);
            if (warp.ready()) {
                go(warp);
                moved = true;
            }
            while (warp.waiting && meet(warp)) moved = true;
        }
        if (!live) {
            machine.progress = machine.polls;
            leave_block(block);
            if (!start_next(block)) resident.erase(resident.begin() + static_cast<int64_t>(which));
            stuck = 0;
            continue;
        }
        if (meet(block)) moved = true;
        stuck = moved ? 0 : stuck + 1;
        if (stuck > 1000 * resident.size() || machine.polls - machine.progress > PATIENCE) {
            fault("deadlock", stuck ? "lanes wait at a collective that others never come to"
                                    : "all thread blocks that have started wait for others");
            return;
        }
    }
}

std::string report() {
    std::string text = "{\"faults\": [";
    const auto number = [&](const std::string& name, uint64_t value, const char* end = ", ") {
        text += "\"" + name + "\": " + std::to_string(value) + end;
    };
    const char* comma = "";
    for (const Fault& one : machine.faults) {
        text += std::string(comma) + "{\"kind\": \"" + one.kind + "\", \"message\": \"" + one.message + "\", ";
        number("count", one.count, "}");
        comma = ", ";
    }
    text += "], \"arrays\": {";
    comma = "";
    for (const Array& one : machine.arrays) {
        text += std::string(comma) + "\"" + one.name + "\": {";
        number("read", one.read), number("written", one.wrote);
        number("read_sectors", one.read_sectors), number("write_sectors", one.write_sectors, "}");
        comma = ", ";
    }
    text += "}, \"sites\": [";
    comma = "";
    for (const auto& [key, one] : machine.sites) {
        text += std::string(comma) + "{\"line\": " + std::to_string(key.first) + ", \"what\": \"" + key.second + "\", ";
        number("requests", one.requests), number("bytes", one.bytes), number("sectors", one.sectors);
        number("wavefronts", one.wavefronts), number("ideal", one.ideal, "}");
        comma = ", ";
    }
    text += "], \"width_bytes\": {";
    for (int width = 1; width <= 16; width *= 2)
        number(std::to_string(width), machine.width_bytes[width], width == 16 ? "}, " : ", ");
    text += "\"counts\": {";
    for (const auto& [name, value] : machine.counts) number(name, value);
    number("polls", machine.polls, "}}");
    return text;
}

}  // namespace

}  // namespace emulator

// The sizes of an operation's operands, as "4 4 1"; null if the machine doesn't have it.
extern "C" const char* emulator_sizes(const char* name) {
    static std::string text;
    const auto found = emulator::operations().find(name);
    if (found == emulator::operations().end()) return nullptr;
    text.clear();
    for (const int size : found->second.sizes) text += std::to_string(size) + " ";
    return text.c_str();
}

extern "C" const char* emulator_run(const emulator::Request* request) {
    using namespace emulator;
    static std::string text;
    machine = Machine{};
    machine.request = *request;
    machine.random.seed(request->seed);
    const double often[] = {0.5, 0.05, 0.002}, stale[] = {0.9, 0.5};
    machine.lands = often[machine.below(3)];
    machine.stale = stale[machine.below(2)];
    for (const char* name : {"block_barriers", "warp_barriers", "shuffles", "votes", "multiplies"})
        machine.counts[name] = 0;
    for (int k = 0; k < request->operation_count; ++k)
        machine.operations.push_back(&operations().at(request->operations[k]));
    prepare_arrays();
    execute();
    if (machine.faults.empty() || machine.faults.back().kind != "deadlock") finish_arrays();
    text = report();
    return text.c_str();
}
