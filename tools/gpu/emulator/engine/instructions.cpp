// Instructions of a lane by itself: arithmetic, comparisons, conversions, loads and stores.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "halves.h"
#include "machine.h"

namespace emulator {

std::map<std::string, Operation>& operations() {
    static std::map<std::string, Operation> all;
    return all;
}

namespace {

// An instruction from a function of values: F is a lambda without captures.
template <class F, class R, class... A, size_t... K>
void apply(Warp& warp, const Instruction& i, Mask mask, std::index_sequence<K...>) {
    R* to = warp.values<R>(i, 0);
    const auto from = std::make_tuple(static_cast<const A*>(warp.values<A>(i, K + 1))...);
    if (mask == ALL) {
        for (int lane = 0; lane < LANES; ++lane) to[lane] = F{}(std::get<K>(from)[lane]...);
    } else {
        for_lanes(mask, [&](int lane) { to[lane] = F{}(std::get<K>(from)[lane]...); });
    }
}

template <class R, class... A, class F>
void add(const std::string& name, F) {
    const Handler run = [](Warp& warp, const Instruction& i, Mask mask) {
        apply<F, R, A...>(warp, i, mask, std::index_sequence_for<A...>());
    };
    operations()[name] = {Kind::plain, run, {sizeof(R), sizeof(A)...}};
}

template <class T>
T flushed(T x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(T(0), x) : x;
}

// The type of twice the size, and the unsigned one of the same.
template <class T>
struct Twice;
template <> struct Twice<int16_t> { using type = int32_t; };
template <> struct Twice<uint16_t> { using type = uint32_t; };
template <> struct Twice<int32_t> { using type = int64_t; };
template <> struct Twice<uint32_t> { using type = uint64_t; };
template <> struct Twice<int64_t> { using type = __int128; };
template <> struct Twice<uint64_t> { using type = unsigned __int128; };

using Predicate = uint8_t;

template <class T>
void comparisons(const std::string& type) {
    add<Predicate, T, T>("setp.eq" + type, [](T a, T b) { return a == b; });
    add<Predicate, T, T>("setp.ne" + type, [](T a, T b) { return a != b; });
    add<Predicate, T, T>("setp.lt" + type, [](T a, T b) { return a < b; });
    add<Predicate, T, T>("setp.le" + type, [](T a, T b) { return a <= b; });
    add<Predicate, T, T>("setp.gt" + type, [](T a, T b) { return a > b; });
    add<Predicate, T, T>("setp.ge" + type, [](T a, T b) { return a >= b; });
}

template <class T>
void bits(const std::string& type) {
    add<T, T, T>("and" + type, [](T a, T b) { return T(a & b); });
    add<T, T, T>("or" + type, [](T a, T b) { return T(a | b); });
    add<T, T, T>("xor" + type, [](T a, T b) { return T(a ^ b); });
    add<T, T>("not" + type, [](T a) { return T(~a); });
    add<T, T, uint32_t>("shl" + type, [](T a, uint32_t n) { return n < 8 * sizeof(T) ? T(a << n) : T(0); });
    add<Predicate, T, T>("setp.eq" + type, [](T a, T b) { return a == b; });
    add<Predicate, T, T>("setp.ne" + type, [](T a, T b) { return a != b; });
}

template <class T>
void moves(const std::string& type) {
    add<T, T>("mov" + type, [](T a) { return a; });
    add<T, T, T, Predicate>("selp" + type, [](T a, T b, Predicate p) { return p ? a : b; });
}

template <class T>
void integers(const std::string& type) {
    using U = std::make_unsigned_t<T>;
    using W = typename Twice<T>::type;
    add<T, T, T>("add" + type, [](T a, T b) { return T(U(a) + U(b)); });
    add<T, T, T>("sub" + type, [](T a, T b) { return T(U(a) - U(b)); });
    add<T, T>("neg" + type, [](T a) { return T(-U(a)); });
    add<T, T, T>("mul.lo" + type, [](T a, T b) { return T(W(a) * W(b)); });
    add<T, T, T>("mul.hi" + type, [](T a, T b) { return T((W(a) * W(b)) >> (8 * sizeof(T))); });
    add<T, T, T, T>("mad.lo" + type, [](T a, T b, T c) { return T(U(W(a) * W(b)) + U(c)); });
    add<T, T, T>("div" + type, [](T a, T b) { return b ? T(W(a) / W(b)) : T(-1); });
    add<T, T, T>("rem" + type, [](T a, T b) { return b ? T(W(a) % W(b)) : a; });
    add<T, T, T>("min" + type, [](T a, T b) { return a < b ? a : b; });
    add<T, T, T>("max" + type, [](T a, T b) { return a > b ? a : b; });
    add<T, T, uint32_t>("shr" + type, [](T a, uint32_t n) {
        return n < 8 * sizeof(T) ? T(a >> n) : T(a < 0 ? -1 : 0);
    });
    if constexpr (sizeof(T) < 8) {
        add<W, T, T>("mul.wide" + type, [](T a, T b) { return W(W(a) * W(b)); });
        add<W, T, T, W>("mad.wide" + type, [](T a, T b, W c) {
            return W(std::make_unsigned_t<W>(W(a) * W(b)) + std::make_unsigned_t<W>(c));
        });
    }
    comparisons<T>(type);
    moves<T>(type);
}

// FLUSH: subnormal numbers are zero, what is read and what comes out.
template <class T, bool FLUSH>
T as_read(T x) {
    return FLUSH ? flushed(x) : x;
}

template <class T, bool FLUSH>
void floats(const std::string& type) {
    constexpr auto f = as_read<T, FLUSH>;
    for (const char* rounding : {"", ".rn"}) {
        add<T, T, T>(std::string("add") + rounding + type, [](T a, T b) { return f(f(a) + f(b)); });
        add<T, T, T>(std::string("sub") + rounding + type, [](T a, T b) { return f(f(a) - f(b)); });
        add<T, T, T>(std::string("mul") + rounding + type, [](T a, T b) { return f(f(a) * f(b)); });
    }
    add<T, T, T, T>("fma.rn" + type, [](T a, T b, T c) { return f(std::fma(f(a), f(b), f(c))); });
    add<T, T>("abs" + type, [](T a) { return f(std::fabs(a)); });
    add<T, T>("neg" + type, [](T a) { return f(-a); });
    add<T, T, T>("min" + type, [](T a, T b) { return f(std::fmin(f(a), f(b))); });
    add<T, T, T>("max" + type, [](T a, T b) { return f(std::fmax(f(a), f(b))); });
    // Ordered: false where one isn't a number. Then the opposite of each, true there.
    add<Predicate, T, T>("setp.eq" + type, [](T a, T b) { return f(a) == f(b); });
    add<Predicate, T, T>("setp.lt" + type, [](T a, T b) { return f(a) < f(b); });
    add<Predicate, T, T>("setp.le" + type, [](T a, T b) { return f(a) <= f(b); });
    add<Predicate, T, T>("setp.gt" + type, [](T a, T b) { return f(a) > f(b); });
    add<Predicate, T, T>("setp.ge" + type, [](T a, T b) { return f(a) >= f(b); });
    add<Predicate, T, T>("setp.neu" + type, [](T a, T b) { return !(f(a) == f(b)); });
    add<Predicate, T, T>("setp.geu" + type, [](T a, T b) { return !(f(a) < f(b)); });
    add<Predicate, T, T>("setp.gtu" + type, [](T a, T b) { return !(f(a) <= f(b)); });
    add<Predicate, T, T>("setp.leu" + type, [](T a, T b) { return !(f(a) > f(b)); });
    add<Predicate, T, T>("setp.ltu" + type, [](T a, T b) { return !(f(a) >= f(b)); });
}

// Conversions from an integer, which may lie in a register that is wider.
template <class T, class R = T>
void from_integer(const std::string& type, const std::string& of = "") {
    add<uint16_t, R>("cvt.u16" + type + of, [](R a) { return uint16_t(T(a)); });
    add<int16_t, R>("cvt.s16" + type + of, [](R a) { return int16_t(T(a)); });
    add<uint32_t, R>("cvt.u32" + type + of, [](R a) { return uint32_t(T(a)); });
    add<int32_t, R>("cvt.s32" + type + of, [](R a) { return int32_t(T(a)); });
    add<uint64_t, R>("cvt.u64" + type + of, [](R a) { return uint64_t(T(a)); });
    add<int64_t, R>("cvt.s64" + type + of, [](R a) { return int64_t(T(a)); });
    add<float, R>("cvt.rn.f32" + type + of, [](R a) { return float(T(a)); });
    add<double, R>("cvt.rn.f64" + type + of, [](R a) { return double(T(a)); });
    if constexpr (sizeof(R) == sizeof(T) && sizeof(T) < 4) from_integer<T, uint32_t>(type, " of 4");
    if constexpr (sizeof(R) == sizeof(T) && sizeof(T) < 8) from_integer<T, uint64_t>(type, " of 8");
}

// Loads and stores of `count` registers of a type from an address and the instruction's offset. SIZE of one register.
template <bool SHARED, bool WRITES, bool ORDERED, unsigned SIZE, unsigned COUNT>
void access(Warp& warp, const Instruction& i, Mask mask) {
    constexpr int ADDRESS = WRITES ? 0 : COUNT, VALUE = WRITES ? 1 : 0;
    uint64_t addresses[LANES];
    int lanes[LANES], count = 0;
    for_lanes(mask, [&](int lane) {
        const uint64_t address = SHARED ? uint32_t(warp.values<uint32_t>(i, ADDRESS)[lane] + uint32_t(i.offset))
                                        : warp.values<uint64_t>(i, ADDRESS)[lane] + uint64_t(int64_t(i.offset));
        addresses[count] = address;
        lanes[count++] = lane;
        unsigned char bytes[16];
        const auto registers = [&](auto act) {
            for (unsigned k = 0; k < COUNT; ++k)
                act(warp.values<unsigned char>(i, VALUE + int(k)) + unsigned(lane) * SIZE, bytes + k * SIZE);
        };
        if (WRITES) {
            registers([](const unsigned char* value, unsigned char* place) { std::memcpy(place, value, SIZE); });
            if (SHARED) write_shared(warp, lane, uint32_t(address), bytes, SIZE * COUNT);
            else write_global(warp, lane, address, bytes, SIZE * COUNT, ORDERED);
        } else {
            if (SHARED) read_shared(warp, lane, uint32_t(address), bytes, SIZE * COUNT);
            else read_global(warp, lane, address, bytes, SIZE * COUNT, ORDERED);
            registers([](unsigned char* value, const unsigned char* place) { std::memcpy(value, place, SIZE); });
        }
    });
    if (!count) return;
    if (SHARED) count_shared(addresses, lanes, count, SIZE * COUNT, WRITES);
    else count_global(addresses, count, SIZE * COUNT, WRITES);
}

template <bool SHARED, bool ORDERED, unsigned SIZE, unsigned COUNT>
void add_access(const std::string& modifiers, bool polls) {
    constexpr int ADDRESS_SIZE = SHARED ? 4 : 8;
    std::vector<int> reads(COUNT, SIZE), writes{ADDRESS_SIZE};
    reads.push_back(ADDRESS_SIZE);
    writes.insert(writes.end(), COUNT, SIZE);
    operations()["ld" + modifiers] = {Kind::plain, access<SHARED, false, ORDERED, SIZE, COUNT>, reads, polls};
    operations()["st" + modifiers] = {Kind::plain, access<SHARED, true, ORDERED, SIZE, COUNT>, writes};
}

template <unsigned SIZE>
void accesses(const char* type) {
    const std::string end = std::string(".") + type;
    add_access<false, false, SIZE, 1>(".global" + end, false);
    add_access<false, false, SIZE, 2>(".global.v2" + end, false);
    add_access<true, false, SIZE, 1>(".shared" + end, false);
    add_access<true, false, SIZE, 2>(".shared.v2" + end, false);
    if constexpr (SIZE <= 4) {
        add_access<false, false, SIZE, 4>(".global.v4" + end, false);
        add_access<true, false, SIZE, 4>(".shared.v4" + end, false);
    }
}

void copy16(Warp& warp, const Instruction& i, Mask mask) {
    uint64_t from[LANES], to[LANES];
    int read = 0, written = 0, lanes[LANES];
    for_lanes(mask, [&](int lane) {
        const Copy copy{warp.lanes[lane].groups, warp.values<uint32_t>(i, 0)[lane] + uint32_t(i.offset),
                        warp.values<uint64_t>(i, 1)[lane], warp.values<uint32_t>(i, 3)[lane]};
        if (copy.valid != 0 && copy.valid != 16) fault("machine", "copies of some of 16 bytes aren't modelled");
        if (copy.valid) from[read++] = copy.source;
        lanes[written] = lane;
        to[written++] = copy.target;
        warp.lanes[lane].copies.push_back(copy);
    });
    if (read) count_global(from, read, 16, false);
    if (written) count_shared(to, lanes, written, 16, true);
}

const bool registered = [] {
    integers<int16_t>(".s16"), integers<uint16_t>(".u16");
    integers<int32_t>(".s32"), integers<uint32_t>(".u32");
    integers<int64_t>(".s64"), integers<uint64_t>(".u64");
    bits<uint16_t>(".b16"), bits<uint32_t>(".b32"), bits<uint64_t>(".b64");
    moves<uint16_t>(".b16"), moves<uint32_t>(".b32"), moves<uint64_t>(".b64");
    moves<float>(".f32"), moves<double>(".f64");
    floats<float, false>(".f32"), floats<float, true>(".ftz.f32"), floats<double, false>(".f64");
    from_integer<uint16_t>(".u16"), from_integer<int16_t>(".s16"), from_integer<uint32_t>(".u32");
    from_integer<int32_t>(".s32"), from_integer<uint64_t>(".u64"), from_integer<int64_t>(".s64");

    using P = Predicate;
    add<P, P>("mov.pred", [](P a) { return a; });
    add<P, P>("not.pred", [](P a) { return P(!a); });
    add<P, P, P>("and.pred", [](P a, P b) { return P(a & b); });
    add<P, P, P>("or.pred", [](P a, P b) { return P(a | b); });
    add<P, P, P>("xor.pred", [](P a, P b) { return P(a ^ b); });
    add<uint64_t, uint64_t>("cvta.to.global.u64", [](uint64_t a) { return a; });
    add<int32_t, int32_t, int32_t>("min.relu.s32", [](int a, int b) { return std::max(std::min(a, b), 0); });
    add<uint32_t, uint32_t>("brev.b32", [](uint32_t a) {
        uint32_t reversed = 0;
        for (int k = 0; k < 32; ++k) reversed |= (a >> k & 1) << (31 - k);
        return reversed;
    });
    add<uint32_t, uint32_t>("bfind.shiftamt.u32", [](uint32_t a) { return a ? uint32_t(__builtin_clz(a)) : ~0u; });
    add<uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>(
        "bfi.b64", [](uint64_t a, uint64_t b, uint32_t from, uint32_t count) {
            const uint64_t ones = (count < 64 ? (1ull << count) - 1 : ~0ull) << from;
            return (b & ~ones) | (a << from & ones);
        });
    add<uint32_t, uint16_t, uint16_t>("pack.b32", [](uint16_t a, uint16_t b) { return a | uint32_t(b) << 16; });
    add<uint64_t, uint32_t, uint32_t>("pack.b64", [](uint32_t a, uint32_t b) { return a | uint64_t(b) << 32; });
    add<uint16_t, uint32_t>("low.b32", [](uint32_t a) { return uint16_t(a); });
    add<uint16_t, uint32_t>("high.b32", [](uint32_t a) { return uint16_t(a >> 16); });
    add<uint32_t, uint64_t>("low.b64", [](uint64_t a) { return uint32_t(a); });
    add<uint32_t, uint64_t>("high.b64", [](uint64_t a) { return uint32_t(a >> 32); });
    add<float, uint16_t>("cvt.f32.f16", half_to_float);
    add<float, uint16_t>("cvt.f32.bf16", bfloat16_to_float);
    add<uint16_t, float>("cvt.rn.f16.f32", float_to_half);
    add<uint16_t, float>("cvt.rn.bf16.f32", float_to_bfloat16);

    for (const char* type : {"b16", "u16", "s16"}) accesses<2>(type);
    for (const char* type : {"b32", "u32", "s32", "f32"}) accesses<4>(type);
    for (const char* type : {"b64", "u64", "s64", "f64"}) accesses<8>(type);
    add_access<false, true, 4, 1>(".acquire.gpu.global.u32", true);
    add_access<false, true, 4, 1>(".release.gpu.global.u32", true);
    for (const char* order : {".relaxed.gpu", ".volatile"})
        add_access<false, false, 4, 1>(std::string(order) + ".global.u32", true);
    const Handler count = [](Warp& warp, const Instruction& i, Mask mask) {
        for_lanes(mask, [&](int lane) {
            const uint64_t address = warp.values<uint64_t>(i, 1)[lane] + uint64_t(int64_t(i.offset));
            warp.values<uint32_t>(i, 0)[lane] = add_global(warp, lane, address, warp.values<uint32_t>(i, 2)[lane]);
        });
    };
    operations()["atom.global.add.u32"] = {Kind::plain, count, {4, 8, 4}};
    operations()["cp.async.cg.shared.global"] = {Kind::plain, copy16, {4, 8, 4, 4}};
    operations()["cp.async.commit_group"] = {Kind::plain, [](Warp& warp, const Instruction&, Mask mask) {
        for_lanes(mask, [&](int lane) { ++warp.lanes[lane].groups; });
    }, {}};
    operations()["cp.async.wait_group"] = {Kind::plain, [](Warp& warp, const Instruction& i, Mask mask) {
        for_lanes(mask, [&](int lane) {
            const unsigned left = warp.values<uint32_t>(i, 0)[lane], groups = warp.lanes[lane].groups;
            if (groups > left) land(warp, lane, groups - left);
        });
    }, {4}};
    operations()["nanosleep.u32"] = {Kind::plain, [](Warp&, const Instruction&, Mask) {}, {4}};
    for (const char* name : {"bra", "bra.uni"}) operations()[name] = {Kind::branch, nullptr, {}};
    operations()["ret"] = {Kind::leave, nullptr, {}};
    return true;
}();

}  // namespace

}  // namespace emulator
