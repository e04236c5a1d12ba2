// backward: the gradients of the full recurrence x_i = a_i x_{i-1} + u_i from its states x and their cotangents g, in
// one pass over memory, back in time:
//
//   du_i = g_i + a_{i+1} du_{i+1},   da_i = the sum of du_i x_{i-1} over the channels that share a_i.
//
// If INITIAL, x_{-1} is an initial state, whose gradient is a_0 du_0. Otherwise da_0 = 0.
//
// A thread owns one line: CHANNELS channels next to each other in memory (TIME_CONTIGUOUS 0), or one channel whose
// steps are next to each other (TIME_CONTIGUOUS 1). Lines that share their coefficients are counted one behind the
// other, so LANES neighbouring threads own them, and add up what they have in one order. Coefficients of their own need
// no sum (LANES 1). The next STEPS steps are always on their way from memory. Pointers are at the last step, and strides
// lead back in time.
//
// All arrays are read at one step i, so that accesses of several steps are aligned alike. Then a_{i+1} and du_{i+1} are
// still there from the step before, and da_{i+1} is what this step can finish.
//
// Macros: those of lines.cuh for g and du, those of sums.cuh, and
//   GIVEN     number type of x
//   INITIAL   1 if x0 holds initial states, and with SEQUENCES those of each sequence in this order
//   SEQUENCES 1 if time holds sequences of their own, one behind the other, of which each thread has a line of one
//   THREADS   of a thread block
//   RESIDENT  warps for which a multiprocessor is to have registers
#include "sums.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT * 32 / THREADS) backward(
    const char* a, const char* g, const char* x, const char* x0, char* du, char* da,
    char* d0,                 // INITIAL: laid out as x0
    const long long* starts,  // SEQUENCES: of each in this order, and the end of the last one
    long long steps,
    long long segments,  // how many sequences there are
    long long sharing, long long da_part,  // lines that share coefficients; from the sums of one group to the next
    long long batch, long long heads, long long lines,  // extents; strides of channels are those of `lines`
    long long a_batch, long long a_head, long long a_channel, STRIDE a_step,
    long long g_batch, long long g_head, long long g_channel, STRIDE g_step,
    long long x_batch, long long x_head, long long x_channel, STRIDE x_step,
    long long x0_batch, long long x0_head, long long x0_channel, long long x0_step,
    long long du_batch, long long du_head, long long du_channel, STRIDE du_step,
    long long da_batch, long long da_head, long long da_channel, STRIDE da_step) {
    const Member own(segments, batch * heads * lines, sharing);
    if (!own.exists) return;
    const Line line(own.line, heads, lines, 1);
    const long long origin = own.origin(starts, steps);
    if (SEQUENCES && steps == 0) return;
    a += line.in(a_batch, a_head, a_channel) + origin * a_step;
    g += line.in(g_batch, g_head, g_channel) + origin * g_step;
    x += line.in(x_batch, x_head, x_channel) + origin * x_step;
    du += line.in(du_batch, du_head, du_channel) + origin * du_step;
    da += line.in(da_batch, da_head, da_channel) + own.group * da_part + origin * da_step;
    const long long entering_at = line.in(x0_batch, x0_head, x0_channel) + own.segment * x0_step;

    Number state[CHANNELS], factor[COEFFICIENTS];  // du and a of the step after
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) state[c] = number<Number>(0);
#pragma unroll
    for (int c = 0; c < COEFFICIENTS; ++c) factor[c] = number<Number>(0);
    Sums sums;

    Chunk chunk;
    Vector<GIVEN, WIDTH> states[ACCESSES];
    constexpr int PIECES = TIMES / COEFFICIENT_STEPS;  // accesses to the coefficients of one access
    auto load = [&](int access) {
        chunk.load_inputs(access, g, g_step);
        states[access] = load_vector<GIVEN, WIDTH>(at<GIVEN>(x, access * TIMES, x_step) + access_start(TIMES));
#pragma unroll
        for (int k = access * PIECES; k < (access + 1) * PIECES; ++k) chunk.load_coefficients(k, a, a_step);
    };
    auto advance = [&](int access, bool last) {
        Vector<OUTPUT, WIDTH> found;
#pragma unroll
        for (int t = 0; t < TIMES; ++t) {
            const int s = access * TIMES + t;
            if (!last || t > 0) {  // nothing comes after the last step
                Number products[CHANNELS];
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c)
                    products[c] = multiply(state[c], states[access][TIME_CONTIGUOUS ? in_access(s, TIMES) : c]);
                sums.take(s + COEFFICIENT_STEPS - 1, products, own.lanes);
                if (s % COEFFICIENT_STEPS == 0) sums.store(at<SUM>(da, s - COEFFICIENT_STEPS, da_step));
            }
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) {
                state[c] = multiply_add(factor[COEFFICIENTS == 1 ? 0 : c], state[c], chunk.input(s, c));
                found.set(TIME_CONTIGUOUS ? in_access(s, TIMES) : c, state[c]);
            }
#pragma unroll
            for (int c = 0; c < COEFFICIENTS; ++c) factor[c] = chunk.coefficient(s, c);
        }
        store_vector(const_cast<OUTPUT*>(at<OUTPUT>(du, access * TIMES, du_step)) + access_start(TIMES), found);
    };
    auto pass_read = [&](int count) {
        a += static_cast<long long>(a_step) * count, g += static_cast<long long>(g_step) * count;
        x += static_cast<long long>(x_step) * count;
    };
    auto pass_written = [&](int count) {
        du += static_cast<long long>(du_step) * count, da += static_cast<long long>(da_step) * count;
    };
    // An access with nothing on its way, at either end of the line.
    auto access_alone = [&](bool last) {
        load(0);
        advance(0, last);
        pass_read(TIMES), pass_written(TIMES);
    };

    access_alone(true);
    long long left = steps - TIMES;
    if (left >= STEPS) {
#pragma unroll
        for (int k = 0; k < ACCESSES; ++k) load(k);
        for (; left >= STEPS; left -= STEPS) {
            const bool more = left >= 2 * STEPS;
            pass_read(STEPS);
#pragma unroll
            for (int k = 0; k < ACCESSES; ++k) {
                advance(k, false);
                if (more) load(k);  // what has been used makes room for the same place of the next chunk
            }
            pass_written(STEPS);
        }
    }
    for (; left > 0; left -= TIMES) access_alone(false);
    Number products[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) products[c] = number<Number>(0);  // even if the state is infinite
    if (INITIAL) {
        const Vector<Number, CHANNELS> entering = load_vector<Number, CHANNELS>(at<Number>(x0 + entering_at, 0, 0));
        Vector<Number, CHANNELS> found;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            products[c] = multiply(state[c], entering[c]);
            found.set(c, multiply(factor[c % COEFFICIENTS], state[c]));
        }
        store_vector(reinterpret_cast<Number*>(d0 + entering_at), found);
    }
    sums.take(COEFFICIENT_STEPS - 1, products, own.lanes);
    sums.store(at<SUM>(da, -COEFFICIENT_STEPS, da_step));
}
