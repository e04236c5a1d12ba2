// sweep: one pass over time with plain arithmetic, for every number type and for coefficients of any kind.
//
//   x_i = a_i x_{i-1} + u_i,  i = 0 .. steps-1 in the order of the sweep; a_0 is read only for the initial state.
//
// A thread owns one line: CHANNELS channels next to each other in memory (TIME_CONTIGUOUS 0), or one channel whose
// steps are next to each other (TIME_CONTIGUOUS 1). It walks a segment of whole blocks; the next STEPS steps are always
// on their way from memory while it works. A segment of the jagged window starts one block early or a few steps more,
// without writing, to have the carrier of that block: nothing passes between threads. Element (batch, head, channel,
// step) of an array lies at batch * array_batch + head * array_head + channel * array_channel + step * array_step BYTES
// from its pointer.
//
// With SEQUENCES, time holds sequences of their own, one behind the other, and segments are parts of them.
//
// With GATED, the gates k and q of a Phalanx layer act on inputs and states. `gate_heads` heads next to each other
// share them, and their strides of heads lead from one such group to the next.
//
// With KEPT, the states after so many steps each, of the full recurrence, go to `kept` as they are computed; or if it is
// negative, the last state of each sequence.
//
// Macros: those of lines.cuh and gates.cuh, and
//   UNIT                         divides STEPS and `block`: blocks begin so many steps from each other and from chunks
//   WINDOW                       0 full, 1 blocks alone, 2 blocks and the one before
//   INITIAL                      1 if x0 holds the initial states, and with SEQUENCES those of each sequence
//   SEQUENCES                    1 if time holds sequences of their own
//   KEPT                         from one state that is kept to the next, whole chunks; -1 if the last of a sequence is;
//                                0 if none is, and with gates
//   WRITES                       1 if states go to `x`, 0 if only those that are kept are wanted
//   THREADS                      of a thread block
//   RESIDENT                     warps for which a multiprocessor is to have registers
#include "gates.cuh"
#include "owners.cuh"
#include "sequences.cuh"

constexpr int ALONE = 1, NEIGHBOUR = 2;

struct States {
    Number state[CHANNELS];  // what is written
    Number local[CHANNELS];  // what the block reaches from zero: the carrier it passes on

    __device__ __forceinline__ void enter_block() {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            if (WINDOW == NEIGHBOUR) state[c] = local[c];
            if (WINDOW == ALONE) state[c] = number<Number>(0);
            local[c] = number<Number>(0);
        }
    }

    // One step; `fresh` is the first of a block, whose local state doesn't see its coefficient.
    __device__ __forceinline__ void advance(int c, Number a, Number u, bool fresh) {
        const Number inner = fresh ? number<Number>(0) : a;
        state[c] = multiply_add(WINDOW == ALONE ? inner : a, state[c], u);
        if (WINDOW == NEIGHBOUR) local[c] = multiply_add(inner, local[c], u);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT * 32 / THREADS) sweep(
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
    long long first,     // of the first block in the order of the sweep; 0 if what is over at the end of a sequence is
    long long block,     // of every other block; the last may be shorter
    long long blocks,    // of a segment
    long long segments,  // of a line
    long long batch, long long heads, long long lines,  // extents; `lines` of a head are its channels / CHANNELS
    long long a_batch, long long a_head, long long a_channel, STRIDE a_step,
    long long u_batch, long long u_head, long long u_channel, STRIDE u_step,
    long long x_batch, long long x_head, long long x_channel, STRIDE x_step,
    long long x0_batch, long long x0_head, long long x0_channel, long long x0_step
#if GATED
    , long long k_batch, long long k_head, long long k_channel, STRIDE k_step,
    long long q_batch, long long q_head, long long q_channel, STRIDE q_step
#endif
#if KEPT
    , long long kept_batch, long long kept_head, long long kept_channel, STRIDE kept_step
#endif
) {
    const Owner own(segments, batch * heads * lines);
    if (!own.exists) return;
#if SEQUENCES
    const Segment segment(own.segment, starts, sequences, blocks * block);
    if (first == 0) first = segment.steps == 0 ? block : (segment.steps - 1) % block + 1;
#else
    const Segment segment(own.segment, steps);
#endif
    steps = segment.steps;
    const long long index = segment.index * blocks;  // of the segment's first block
    const long long begin = index == 0 ? 0 : first + (index - 1) * block;
    long long end = first + (index + blocks - 1) * block;
    if (end > steps || segment.index + 1 == segments) end = steps;
    if (SEQUENCES && begin >= end) return;
    long long position = begin;
    // One block early, and whole chunks, so that these end where the segment begins.
    if (WINDOW == NEIGHBOUR && index > 0) {
        position -= (block + STEPS - 1) / STEPS * STEPS;
        if (index == 1 || position < 0) position = 0;
    }
    const Line line(own.line, heads, lines);
    a += line.in(a_batch, a_head, a_channel) + (segment.origin + position) * a_step;
    u += line.in(u_batch, u_head, u_channel) + (segment.origin + position) * u_step;
    x += line.in(x_batch, x_head, x_channel) + (segment.origin + position) * x_step;
    Gates gates;
#if GATED
    Line group = line;
    group.head /= gate_heads;
    gates.k = k + group.in(k_batch, k_head, k_channel) + (segment.origin + position) * k_step;
    gates.q = q + group.in(q_batch, q_head, q_channel) + (segment.origin + position) * q_step;
    gates.k_step = k_step, gates.q_step = q_step;
#endif
#if KEPT
    static_assert(WINDOW != ALONE && WINDOW != NEIGHBOUR && (KEPT < 0 || KEPT % STEPS == 0),
                  "states are kept after whole chunks, or at the end");
    kept += line.in(kept_batch, kept_head, kept_channel);
    kept += (KEPT < 0 ? segment.sequence : segment.origin / KEPT) * kept_step;
#endif

    States states;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) states.state[c] = states.local[c] = number<Number>(0);
    long long left = begin - position - block;  // steps left of the block: of one that isn't needed, or none

    // Begin a block, if the last one has ended.
    auto enters_block = [&] {
        if (left != 0) return false;
        states.enter_block();
        left = block;
        return true;
    };
    // Put the state into a row of those that are kept.
    auto keep_in = [&](long long row) {
#if KEPT
        Vector<Number, CHANNELS> state;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) state.set(c, states.state[c]);
        store_vector(reinterpret_cast<Number*>(kept + row * kept_step), state);
#endif
    };
    // Keep the state after so many steps, if it is one of those that are kept.
    auto keep = [&](long long passed) {
#if KEPT > 0
        if (passed % KEPT == 0) keep_in(passed / KEPT - 1);
#endif
    };
    // One step with nothing on its way: at the very start, and at the end of the line.
    auto step_alone = [&] {
        const bool fresh = enters_block();
        Vector<INPUT, CHANNELS> inputs = load_vector<INPUT, CHANNELS>(at<INPUT>(u, 0, 0));
        Vector<COEFFICIENT, COEFFICIENTS> coefficients;
        const bool reads = INITIAL || position > 0;
        if (reads) coefficients = load_vector<COEFFICIENT, COEFFICIENTS>(at<COEFFICIENT>(a, 0, 0));
        gates.load(0);
        Vector<OUTPUT, CHANNELS> outputs;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            const Number coefficient =
                reads ? Number(coefficients[COEFFICIENTS == 1 ? 0 : c]) : number<Number>(0);
            states.advance(c, coefficient, gates.input(0, c, inputs[c]), fresh);
            outputs.set(c, gates.output(0, c, states.state[c], inputs[c]));
        }
        if (WRITES && position >= begin) store_vector(reinterpret_cast<OUTPUT*>(x), outputs);
        a += a_step, u += u_step, x += x_step;
        gates.pass(1);
        ++position, --left;
        keep(position);
    };

    if (position == 0 && steps > 0) {
        left = first;
        if (INITIAL) {
            x0 += line.in(x0_batch, x0_head, x0_channel) + segment.sequence * x0_step;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
                states.state[c] = states.local[c] = load(reinterpret_cast<const Number*>(x0 + c * x0_channel));
        }
        // Chunks are aligned to where the segment begins; if that is here, to where blocks do in reverse.
        long long head = begin > 0 ? (begin - 1) % STEPS + 1 : first == block ? STEPS : (first - 1) % STEPS + 1;
        if (head > end) head = end;
        for (long long k = 0; k < head; ++k) step_alone();
    } else if (WINDOW == ALONE) {
        left = 0;
    }

    long long chunks = (end - position) / STEPS;
    if (chunks > 0) {
        Chunk chunk;
#pragma unroll
        for (int k = 0; k < ACCESSES; ++k) chunk.load_inputs(k, u, u_step);
#pragma unroll
        for (int s = 0; s < STEPS; ++s) gates.load(s);
#pragma unroll
        for (int k = 0; k < STEPS / COEFFICIENT_STEPS; ++k) chunk.load_coefficients(k, a, a_step);
        position += chunks * STEPS;
        const long long written = (position - begin) / STEPS;  // chunks that are written: the last ones
        // In this loop the order of statements counts. With 16 bytes a lane, a chunk takes all of the 96 registers that
        // there are: what is kept one statement longer may spill. The tests read the machine code of all targets.
        for (; chunks > 0; --chunks) {
            const bool more = chunks > 1, writes = chunks <= written;
            a += static_cast<long long>(a_step) * STEPS;
            u += static_cast<long long>(u_step) * STEPS;
            Vector<OUTPUT, WIDTH> outputs;
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                const bool fresh = s % UNIT == 0 && enters_block();
                if (s % UNIT == 0) left -= UNIT;
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c) {
                    const Number input = chunk.input(s, c);
                    states.advance(c, chunk.coefficient(s, c), gates.input(s, c, input), fresh);
                    outputs.set(TIME_CONTIGUOUS ? in_access(s, TIMES) : c, gates.output(s, c, states.state[c], input));
                }
                // What has been used makes room for the same place of the next chunk.
                if (more && s % COEFFICIENT_STEPS == COEFFICIENT_STEPS - 1)
                    chunk.load_coefficients(s / COEFFICIENT_STEPS, a, a_step);
                if (more) gates.load(STEPS + s);
                if (s % TIMES == TIMES - 1) {
                    if (more) chunk.load_inputs(s / TIMES, u, u_step);
                    if (WRITES && writes)
                        store_vector(const_cast<OUTPUT*>(at<OUTPUT>(x, s + 1 - TIMES, x_step)) + access_start(TIMES),
                                     outputs);
                }
            }
            x += static_cast<long long>(x_step) * STEPS;
            gates.pass(STEPS);
            keep(position - (chunks - 1) * STEPS);
        }
    }
    while (position < end) step_alone();
    if (KEPT < 0) keep_in(0);
}
