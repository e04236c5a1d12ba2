// An emulator that executes PTX: what its parts share.
//
// What it models
//   lanes     Each has a place in the program of its own. A group of lanes at one place executes an instruction
//             together: all that may (the order in which hardware goes), or any of them down to one, until they meet at
//             a collective. So nothing is in lock-step that CUDA doesn't promise to be.
//   blocks    Any number at once, started in any order, next in turn by chance.
//   stores    To scratch arrays they wait in a buffer of the thread, after a barrier of the warp in the warp's, after
//             one of the block in the block's, and reach memory one by one in any order. A release sends out all that
//             the thread may know of before it. To shared memory they wait for a barrier, or for chance.
//   loads     See what the buffers of the thread, its warp and its block hold, and of memory any value since the time
//             that the thread has acquired, or got from others at a barrier.
//   copies    cp.async lands when waited for, or earlier, by chance.
//   numbers   As PTX says, with .ftz. Tensor cores add aligned and cut, as hardware is known to.
//   fragments Elements of WMMA lie where no GPU has them.
//   traffic   Bytes and 32-byte sectors of each request of global memory, wavefronts of each request of shared memory:
//             true of hardware where lanes go together.
//
// What it doesn't: time, caches, the machine code (ptxas schedules and merges no access here), arrival of stores of one
// block at different times in others, and lanes that miss a barrier of their warp, which see its stores early.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace emulator {

constexpr int LANES = 32;
using Mask = uint32_t;
constexpr Mask ALL = ~0u;

struct Warp;
struct Instruction;
using Handler = void (*)(Warp&, const Instruction&, Mask);

enum class Kind { plain, branch, leave, warp_barrier, collective, aligned, block_barrier };

struct Operation {
    Kind kind;
    Handler run;
    std::vector<int> sizes;  // of its operands, in bytes
    bool polls = false;      // whether it reads what another block may be about to write
};

extern std::map<std::string, Operation>& operations();

// As the Python side fills it in.
struct Instruction {
    int operation, guard, negated, target, offset, line, first, count;  // guard and operands: places in registers
};

struct ArrayRequest {
    const char* name;
    uint64_t base, bytes;
    int role, pieces;
    const uint64_t *offsets, *sizes;
    unsigned char* const* data;
    const unsigned char* const* expected;
};

struct Request {
    const Instruction* program;
    const int* operands;
    const char* const* operations;
    const unsigned char* constants;
    int instructions, operation_count, register_bytes, special;  // `special`: where %tid.x and so on are
    uint32_t grid, threads, shared_bytes;
    uint32_t resident, seed, weak;
    const uint32_t* order;
    int arrays;
    const ArrayRequest* array;
};

enum Role { IN, OUT, INOUT, SCRATCH };

struct Version {
    uint64_t time, writer;  // the thread, by a number that no other has
    uint32_t value;
    bool written;
};

struct Piece {
    uint64_t offset, bytes;
    unsigned char* data;
    const unsigned char* expected;
    std::vector<uint8_t> written;
    std::vector<std::vector<Version>> history;  // of each 4 bytes
};

struct Array {
    std::string name;
    uint64_t base, bytes;
    int role;
    std::vector<Piece> pieces;
    uint64_t read = 0, wrote = 0, read_sectors = 0, write_sectors = 0;
};

struct Store {
    uint64_t address, writer;
    unsigned size;
    unsigned char bytes[16];
    bool meets(uint64_t low, unsigned count) const { return address < low + count && low < address + size; }
};
using Buffer = std::vector<Store>;

struct Copy {
    unsigned group;
    uint32_t target;
    uint64_t source;
    unsigned valid;
};

struct Lane {
    int place = 0;
    uint64_t view = 0;  // all that memory held at this time is seen
    Buffer stores, shared;
    std::vector<Copy> copies;
    unsigned groups = 0;  // of copies, closed
};

struct Block;

struct Warp {
    Block* block;
    int index;
    std::vector<unsigned char> registers;
    Lane lanes[LANES];
    Mask all = 0, live = 0, waiting = 0;  // at a collective
    Buffer stores;

    unsigned char* row(int place);
    Mask ready() const { return live & ~waiting; }
    uint64_t thread(int lane) const;
    template <class T>
    T* values(const Instruction& i, int k);
};

struct Block {
    uint32_t index;
    uint64_t serial;
    std::vector<unsigned char> shared, written;
    std::vector<Warp> warps;
    Buffer stores;
};

struct Site {
    uint64_t requests = 0, bytes = 0, sectors = 0, wavefronts = 0, ideal = 0;
};

struct Fault {
    std::string kind, message;
    uint64_t count;
};

struct Machine {
    Request request;
    std::vector<const Operation*> operations;
    std::vector<Array> arrays;
    std::vector<Fault> faults;
    std::map<std::pair<int, std::string>, Site> sites;
    std::map<std::string, uint64_t> counts;
    uint64_t width_bytes[17];
    uint64_t time, progress, polls;
    std::mt19937 random;
    double lands, stale;  // chances
    const Instruction* at;
    bool chance(double p) { return std::uniform_real_distribution<>()(random) < p; }
    unsigned below(size_t count) { return static_cast<unsigned>(random() % count); }
};
extern Machine machine;

inline unsigned char* Warp::row(int place) {
    return place < 0 ? const_cast<unsigned char*>(machine.request.constants) - place - 1 : registers.data() + place;
}
inline uint64_t Warp::thread(int lane) const {
    return block->serial * 1024 + static_cast<unsigned>(index * LANES + lane);
}
template <class T>
T* Warp::values(const Instruction& i, int k) {
    return reinterpret_cast<T*>(row(machine.request.operands[i.first + k]));
}

template <class F>
void for_lanes(Mask mask, F act) {
    for (; mask; mask &= mask - 1) act(__builtin_ctz(mask));
}

void fault(const std::string& kind, const std::string& message);

// memory.cpp
void prepare_arrays();
void finish_arrays();
void read_global(Warp& warp, int lane, uint64_t address, void* to, unsigned size, bool acquires);
void write_global(Warp& warp, int lane, uint64_t address, const void* from, unsigned size, bool releases);
uint32_t add_global(Warp& warp, int lane, uint64_t address, uint32_t value);
void read_shared(Warp& warp, int lane, uint32_t address, void* to, unsigned size);
void write_shared(Warp& warp, int lane, uint32_t address, const void* from, unsigned size);
void land(Warp& warp, int lane, unsigned groups);  // copies of so many groups
void meet_warp(Warp& warp, Mask mask);             // a barrier's effect on memory
void meet_block(Block& block);
void by_chance(Warp& warp);  // what memory does by itself
void leave_block(Block& block);

// traffic.cpp
void count_global(const uint64_t* addresses, int count, unsigned size, bool write);
void count_shared(const uint64_t* addresses, const int* lanes, int count, unsigned size, bool write);

}  // namespace emulator
