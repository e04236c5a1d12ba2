// b2p: the block two-pass algorithm on tensor cores, for half-precision inputs with coefficients that channels share.
//
//   x_t = L_t u_t + g_t v_{t-1}     for a tile t of 16 steps by 16 channels
//
// A warp owns 16 channels of a head and sweeps a segment of time, tile by tile. L_t (products of the tile's
// coefficients) is built in float32 registers, two lanes to a row; the product L_t u_t runs on tensor cores with
// float32 accumulation; the carrier v, its rank-one update g_t v_{t-1} and the result stay in float32 until the one
// rounding at the end. With SPLIT, L_t is the sum of two half-precision matrices, its rounded value and the rounded
// rest, so that storing it costs less than the rounding of the result does. float16 has no small numbers to hold the
// rest of an entry, or an entry after a few steps of decay: its rest is stored RAISED times larger. A segment of the
// jagged window starts one block early, without writing, to have its carrier. Nothing passes between warps.
//
// A warp works on one of its STAGES tiles while the others are on their way from memory. Its instructions wait for each
// other less if several chains of them go on at once, so L_t of the next tile is built while this one gets its carrier
// and its results. Between two barriers stand loads first and stores last: the compiler doesn't move a load before a
// store, nor anything over a branch.
//
// A block may begin inside a tile (SHIFTED). L_t u_t is right then as it is, because both blocks are neighbours. But
// the rows of the later block go on from what the earlier one reached from zero, instead of from its state. A segment
// is whole tiles: those from the first on that lies in none of the blocks before.
//
// With SEQUENCES, time holds sequences of their own, one behind the other, and segments are parts of them. Each has
// tiles of its own.
//
// A tile is taken in the order of memory also when the sweep runs backwards (REVERSE); L_t stands mirrored then. A tile
// with a result or a carrier that isn't finite is repeated by plain steps: 0 * inf would spread it to rows before its
// cause, and a product of coefficients may overflow in half precision where the states don't.
//
// With KEPT, the states after so many steps each go to `kept` as they are passed on; or if it is negative, what the last
// tile of each sequence passes on. Coefficients beyond the end are 1 then, and inputs 0, so this is the last state.
//
// Element (batch, head, channel, step) of an array lies at batch * array_batch + head * array_head + channel *
// array_channel + step * array_step BYTES from its pointer, which is at step 0. Inputs and outputs are contiguous along
// the channels (or along time if TIME_CONTIGUOUS) in whole aligned groups of 8.
//
// Macros
//   INPUT, COEFFICIENT, OUTPUT   half or __nv_bfloat16; that or float; INPUT or float
//   TIME_CONTIGUOUS, REVERSE     see above
//   SPLIT                        1: L_t in two terms
//   STAGES                       tiles of a warp, all but the one at work on their way; even
//   ASYNCHRONOUS                 1 if tiles come to shared memory by asynchronous copies, 0 if in registers
//   WARPS                        of a thread block
//   RESIDENT                     warps for which a multiprocessor is to have registers
//   WINDOW                       0 full, 1 blocks alone, 2 blocks and the one before
//   SINGLE                       1 if a block is one tile
//   SHIFTED                      1 if blocks, of at least a tile and with the one before, aren't whole tiles
//   INITIAL                      1 if x0 holds the initial states, and with SEQUENCES those of each sequence
//   SEQUENCES                    1 if time holds sequences of their own
//   GATED                        1 if the gates k and q of a Phalanx layer act on inputs and states (tile_gates.cuh)
//   KEPT                         from one state that is kept to the next, a tile; -1 if the last of a sequence is; 0 if
//                                none is
//   WRITES                       1 if states go to `x`, 0 if only those that are kept are wanted
#include "products.cuh"
#include "sequences.cuh"

extern "C" __global__ void __launch_bounds__(WARPS * 32, RESIDENT / WARPS) b2p(
    const char* a, const char* u, char* x, const char* x0,
#if GATED
    const char* k, const char* q, long long gate_heads,
#endif
#if KEPT
    char* kept,
#endif
    const long long* starts,  // of each sequence in the order of the sweep, and the end of the last one
    long long sequences,
    long long steps,     // of the recurrence
    long long first,     // steps from the start of the first tile to the end of the first block, in order of the sweep;
                         // 0 if what is over at the end of a sequence is
    long long block,     // steps of every other block
    int blocks,          // of a segment
    long long segments,  // of all of a head's time
    long long batch, long long heads, long long channels,
    long long a_batch, long long a_head, long long a_step,
    long long u_batch, long long u_head, long long u_channel, long long u_step,
    long long x_batch, long long x_head, long long x_channel, long long x_step,
    long long x0_batch, long long x0_head, long long x0_channel, long long x0_step
#if GATED
    , long long k_batch, long long k_head, long long k_channel, long long k_step,
    long long q_batch, long long q_head, long long q_channel, long long q_step
#endif
#if KEPT
    , long long kept_batch, long long kept_head, long long kept_channel, long long kept_step
#endif
) {
    __shared__ __align__(128) unsigned char memory[WARPS * WARP_BYTES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Work work = {memory + warp * WARP_BYTES};
    const Place at(lane);

    const long long columns = (channels + TILE - 1) / TILE;  // tiles next to each other in a head
    const long long units = batch * heads * columns, index = blockIdx.x * static_cast<long long>(WARPS) + warp;
    const long long part = index / units, unit = index - part * units;
    if (part >= segments) return;
#if SEQUENCES
    const Segment segment(part, starts, sequences, blocks * block);
    const long long origin = REVERSE ? steps - segment.origin - segment.steps : segment.origin;  // in memory
    a += origin * a_step, u += origin * u_step, x += origin * x_step;
    steps = segment.steps;
    if (first == 0 && steps > 0) first = (steps - 1) % block + 1 + (TILE - 1 - (steps - 1) % TILE);
#else
    const Segment segment(part, steps);
#endif
    const long long head_index = unit / columns, channel = (unit - head_index * columns) * TILE;
    const long long b = head_index / heads, h = head_index - b * heads;

    const int tiles = static_cast<int>((steps + TILE - 1) / TILE);
    const int rest = static_cast<int>(steps % TILE);  // of the ragged tile, if there is one
    const int wide = channels - channel < TILE ? static_cast<int>(channels - channel) : TILE;

    // Tiles of the segment in the order of the sweep.
    const long long before = segment.index * blocks;  // blocks
    auto start_of = [&](long long index) { return index <= 0 ? 0 : first + (index - 1) * block; };
    auto tile_of = [&](long long step) { return static_cast<int>((step + TILE - 1) / TILE); };
    const int begin = tile_of(start_of(before));
    const int planned = tile_of(start_of(before + blocks));
    const int end = planned > tiles || segment.index + 1 == segments ? tiles : planned;
    if (SEQUENCES && begin >= end) return;
    const long long entry = start_of(WINDOW == NEIGHBOUR ? before - 1 : before);  // the step to begin with
    int tile = static_cast<int>(entry / TILE);

    // A lane moves 8 numbers of a row: of a step, or of a channel if TIME_CONTIGUOUS.
    const int lane_step = TIME_CONTIGUOUS ? at.half * HALF : at.row;
    const int lane_channel = TIME_CONTIGUOUS ? at.row : at.half * HALF;
    const long long memory_tile = REVERSE ? tiles - 1 - tile : tile;
    const char* u_next = u + b * u_batch + h * u_head + (channel + lane_channel) * u_channel +
                         (memory_tile * TILE + lane_step) * u_step;
    char* x_next = x + b * x_batch + h * x_head + (channel + lane_channel) * x_channel +
                   (memory_tile * TILE + lane_step) * x_step;
    // Coefficient r of a tile leads into its step r of the sweep: from the step before or after in memory.
    const long long coefficient_step = memory_tile * TILE + (REVERSE ? TILE - lane : lane);
    const char* a_next = a + b * a_batch + h * a_head + coefficient_step * a_step;
    Gates gates;
#if GATED
    const long long group = h / gate_heads, own_channel = channel + lane_channel, step = memory_tile * TILE + lane_step;
    gates.k = k + b * k_batch + group * k_head + own_channel * k_channel + step * k_step;
    gates.q = q + b * q_batch + group * q_head + own_channel * q_channel + step * q_step;
    gates.k_step = k_step, gates.q_step = q_step;
#endif

#if KEPT
    static_assert(WINDOW == 0 && !REVERSE && (KEPT == TILE || KEPT < 0),
                  "what tiles of the full recurrence pass on is kept");
    kept += b * kept_batch + h * kept_head + (channel + lane) * kept_channel;
    kept += (KEPT < 0 ? segment.sequence : segment.origin / KEPT) * kept_step;
#endif

    // Which tiles, in the order of the sweep, have what a lane moves: those from `first` on, `count` of them. Only the
    // ragged tile (the last one forwards, the first one backwards) and the first coefficient make a difference.
    const bool in_rest = rest == 0 || lane_step < rest;
    const bool in_rest_a = REVERSE ? TILE - lane < (rest == 0 ? 0 : rest) || (rest == 0 && lane > 0)
                                   : rest == 0 || lane < rest;
    const int u_first = REVERSE && !in_rest ? 1 : 0, u_end = !REVERSE && !in_rest ? tiles - 1 : tiles;
    const int a_first = REVERSE ? !in_rest_a : !INITIAL && lane == 0;
    const int a_end = !REVERSE && !in_rest_a ? tiles - 1 : tiles;
    const int x_first = max(begin, u_first);
    auto count_of = [&](int from, int to, bool any) {
        return static_cast<unsigned int>(any ? max(min(to, end) - from, 0) : 0);
    };
    const unsigned int u_count = count_of(u_first, u_end, lane_channel < wide);
    const unsigned int a_count = count_of(a_first, a_end, lane < TILE);
    const unsigned int x_count = count_of(x_first, u_end, lane_channel < wide);

    // Coefficients of the tiles on their way, one in each of the first 16 lanes, as they are stored: to widen one here
    // would be to wait for it.
    COEFFICIENT ahead[STAGES];
#if !ASYNCHRONOUS
    Packet<16> arriving[STAGES];  // the tiles themselves
#endif
    auto set_out = [&](int next, int stage) {  // for the next tile
        const bool here = static_cast<unsigned int>(next - u_first) < u_count;
#if ASYNCHRONOUS
        copy16_async(GATED ? work.own(stage, 0) : work.inputs(stage) + at.row * ROW + at.half * HALF, u_next,
                     here ? 16 : 0);
        gates.set_out(work, stage, here);
        commit_async();
#else
        arriving[stage] = load_if(reinterpret_cast<const Packet<16>*>(u_next), here);
#endif
        const bool here_a = static_cast<unsigned int>(next - a_first) < a_count;
        ahead[stage] = load_if(reinterpret_cast<const COEFFICIENT*>(a_next), here_a);
        u_next += AHEAD * u_step;
        a_next += AHEAD * a_step;
    };
    // The lane's coefficient of a tile that has arrived.
    auto coefficient = [&](int tile, int stage) {
#if KEPT < 0
        if (!in_rest_a && tile == tiles - 1) return 1.0f;
#endif
        return widen(ahead[stage]);
    };
    // Have a tile in shared memory, behind the next barrier.
    auto arrive = [&](int stage) {
#if ASYNCHRONOUS
        wait_async<STAGES - 2>();
#else
        write16(work.inputs(stage) + at.row * ROW + at.half * HALF, arriving[stage]);
#endif
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) set_out(tile + stage, stage);

    if (lane < TILE) {
        float state = 0.0f;
        if (INITIAL && tile == 0 && lane < wide)
            state = load(
                reinterpret_cast<const float*>(x0 + b * x0_batch + h * x0_head + (channel + lane) * x0_channel +
                                                 segment.sequence * x0_step));
        store_shared(work.carrier(1) + lane, state);
        if (LONG) store_shared(work.local_carrier(1) + lane, state);
        store_shared(work.coefficients(0) + lane, coefficient(tile, 0));
    }
    arrive(0);
    __syncwarp();
    Factor factor;
    factor.build(work.coefficients(0), at);
    factor.write(work, at, lane, 0);
    gates.build(work, 0);
    gates.write(work, at);
    __syncwarp();

    long long left = entry == 0 ? first : block;  // steps from the start of the tile to the end of the block
    if (SHIFTED && entry % TILE != 0) left = entry % TILE;  // of a block that isn't needed
    bool enters = !(INITIAL && tile == 0);  // the tile is the first of a block, and has no state to go on from
    bool linked = !enters;                  // the tile has a carrier

    while (tile < end) {
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            if (tile >= end) break;
            const int version = stage % 2;
            // The next tile belongs to another block, and gets what this one reached from zero.
            const bool ends = WINDOW == NEIGHBOUR && (SINGLE || left == TILE);
            const int turn = SHIFTED && left < TILE ? static_cast<int>(left) : TILE;  // where the next block begins
            if (LONG) left += (left <= TILE ? block : 0) - TILE;
            multiply_tile(work, stage);
            set_out(tile + STAGES - 1, (stage + STAGES - 1) % STAGES);  // in the place of the tile before
            if (lane < TILE)
                store_shared(work.coefficients(1 - version) + lane, coefficient(tile + 1, (stage + 1) % STAGES));
            if (SHIFTED && turn < TILE && lane < TILE)
                store_shared(work.local_carrier(version) + lane, reach_from(work, lane, stage, version, turn));
            __syncwarp();

            // L_t of the next tile, while this one waits for its product; with gates, also its inputs.
            const float g = factor.through;
            factor.build(work.coefficients(1 - version), at);
            if (GATED) {
                arrive((stage + 1) % STAGES);
                gates.build(work, (stage + 1) % STAGES);
            }

            Vector<OUTPUT, 4> quads[2];
            // Whether a step, in the order of memory, belongs to a block that begins inside the tile.
            auto late = [&](int step) { return SHIFTED && (REVERSE ? TILE - 1 - step : step) >= turn; };
            float row_g = 0.0f, row_carrier = 0.0f, row_local = 0.0f;
            if (TIME_CONTIGUOUS) {
                row_carrier = load_shared(work.carrier(1 - version) + at.row);
                if (!linked) row_carrier = 0.0f;
                if (LONG) row_local = load_shared(work.local_carrier(1 - version) + at.row);
            } else {
                row_g = __shfl_sync(EVERYONE, g, REVERSE ? TILE - 1 - at.row : at.row);
                if (!linked) row_g = 0.0f;
            }
            Vector<float, 4> local[2], factors[2], other[2];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int four = at.four(k);
                const float* carrier = SHIFTED && !TIME_CONTIGUOUS && late(at.row) ? work.local_carrier(1 - version)
                                                                                   : work.carrier(1 - version);
                local[k].packets[0] = read16(work.product() + at.row * ROW + four);
                factors[k].packets[0] = read16((TIME_CONTIGUOUS ? work.products(version) : carrier) + four);
                if (LONG && !TIME_CONTIGUOUS) other[k].packets[0] = read16(work.local_carrier(1 - version) + four);
            }
            gates.take(work, at, stage);
            // The rank-one update, four numbers at a time; `k` counts them in the order in which this lane takes them.
            float check = 0.0f;
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int four = at.four(k);
                Vector<float, 4> states, passed;
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    const float w = local[k].items[c];
                    const float row_from = SHIFTED && late(four + c) ? row_local : row_carrier;
                    states.items[c] = fmaf(factors[k].items[c], TIME_CONTIGUOUS ? row_from : row_g, w);
                    quads[k].set(c, gates.output(k, c, states.items[c]));
                    check = fmaf(states.items[c], 0.0f, check);
                    if (LONG) {
                        // What the block reached from zero; a block that begins here doesn't see its first coefficient.
                        const float through = TIME_CONTIGUOUS ? factors[k].items[c] : row_g;
                        const float from = TIME_CONTIGUOUS ? row_local : other[k].items[c];
                        passed.items[c] = enters ? w : fmaf(through, from, w);
                        check = fmaf(passed.items[c], 0.0f, check);
                    }
                }
                // The last row, in the order of the sweep, is what passes on.
                constexpr int LAST = REVERSE ? 0 : TILE - 1;
                if (TIME_CONTIGUOUS ? four == LAST / 4 * 4 : at.row == LAST) {
                    Vector<float, 4> kept;
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        const bool sees_all = INITIAL && !enters;  // of the block: the first, with the initial state
                        const float reached = LONG ? passed.items[c] : (sees_all ? states.items[c] : local[k].items[c]);
                        kept.items[c] = ends ? reached : states.items[c];
                    }
                    if (TIME_CONTIGUOUS) {
                        store_shared(work.carrier(version) + at.row, kept.items[LAST % 4]);
                        if (LONG && turn == TILE)
                            store_shared(work.local_carrier(version) + at.row, passed.items[LAST % 4]);
                    } else {
                        write16(work.carrier(version) + four, kept.packets[0]);
                        if (LONG && turn == TILE) write16(work.local_carrier(version) + four, passed.packets[0]);
                    }
                }
            }
            factor.write(work, at, lane, 1 - version);
            gates.write(work, at);
            if (__builtin_expect(__any_sync(EVERYONE, check != 0.0f), 0)) {
                gates.write_products(work, at, stage);
                __syncwarp();
                repeat_tile(work, lane, stage, version, linked, enters, ends, turn);
                __syncwarp();
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    Vector<float, 4> states;
                    states.packets[0] = read16(work.product() + at.row * ROW + at.four(k));
#pragma unroll
                    for (int c = 0; c < 4; ++c) quads[k].set(c, gates.output(k, c, states.items[c]));
                }
            }
            const bool here = static_cast<unsigned int>(tile - x_first) < x_count;
            const Vector<OUTPUT, HALF> results = join(quads[0], quads[1], at.second);
#pragma unroll
            for (int k = 0; k < (WRITES ? results.ACCESSES : 0); ++k)
                store_if(reinterpret_cast<Packet<16>*>(x_next) + k, results.packets[k], here);
            x_next += AHEAD * x_step;

            if (WINDOW == ALONE) left -= TILE;
            enters = ends || (WINDOW == ALONE && left == 0);
            if (enters && WINDOW == ALONE) left = block;
            linked = !(WINDOW == ALONE && enters);
            ++tile;
            if (!GATED) arrive((stage + 1) % STAGES);
            __syncwarp();
#if KEPT
            const bool keeps = KEPT < 0 ? tile == end : tile * static_cast<long long>(TILE) <= steps;  // whole tiles
            if (lane < wide && keeps) store(reinterpret_cast<float*>(kept), load_shared(work.carrier(version) + lane));
            if (KEPT > 0) kept += kept_step;
#endif
        }
    }
}
