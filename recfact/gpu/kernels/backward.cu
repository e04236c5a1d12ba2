// backward: the gradients of the full recurrence x_i = a_i x_{i-1} + u_i from its states x and their cotangents g, in
// one pass over memory, back in time:
//
//   du_i = g_i + a_{i+1} du_{i+1},   da_i = the sum of du_i x_{i-1} over the channels that share a_i,   da_0 = 0.
//
// A thread owns one line, CHANNELS channels next to each other in memory. LANES neighbouring threads own the channels
// of a head that share their coefficients, and add up what they have in one order. Coefficients of their own need no
// sum (LANES 1). The next STEPS steps are always on their way from memory. Positions p = 0 .. steps-1 run back in time:
// g, du and da lie at p * array_step from their pointers, which are at the last step; a_{i+1} at p * a_step, and x_{i-1}
// at p * x_step. What lies there for p = 0 of a and for the last p of x isn't read.
//
// Macros: those of lines.cuh for g and du (x is of the type of g), with TIME_CONTIGUOUS 0 and COEFFICIENT_STEPS 1, that
// of sums.cuh, and
//   SEQUENCES 1 if time holds sequences of their own, one behind the other, of which each thread has a line of one
//   THREADS   of a thread block
//   RESIDENT  warps for which a multiprocessor is to have registers
#include "owners.cuh"
#include "sums.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT * 32 / THREADS) backward(
    const char* a, const char* g, const char* x, char* du, char* da,
    const long long* starts,  // SEQUENCES: of each in this order, and the end of the last one
    long long steps,
    long long segments,  // how many sequences there are
    long long batch, long long heads, long long lines,  // extents; `lines` of a head are its channels / CHANNELS
    long long a_batch, long long a_head, long long a_channel, STRIDE a_step,
    long long g_batch, long long g_head, long long g_channel, STRIDE g_step,
    long long x_batch, long long x_head, long long x_channel, STRIDE x_step,
    long long du_batch, long long du_head, long long du_channel, STRIDE du_step,
    long long da_batch, long long da_head, long long da_channel, STRIDE da_step) {
    const Owner own(segments, batch * heads * lines);
    if (!own.exists) return;  // LANES threads at once
    const Line line(own.line, heads, lines);
    const long long origin = own.origin(starts, steps);
    if (SEQUENCES && steps == 0) return;
    a += line.in(a_batch, a_head, a_channel) + origin * a_step;
    g += line.in(g_batch, g_head, g_channel) + origin * g_step;
    x += line.in(x_batch, x_head, x_channel) + origin * x_step;
    du += line.in(du_batch, du_head, du_channel) + origin * du_step;
    da += line.in(da_batch, da_head, da_channel) + origin * da_step;

    Number state[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) state[c] = number<Number>(0);

    // One step, from what was loaded for it.
    auto advance = [&](int place, const Vector<INPUT, CHANNELS>& cotangents,
                       const Vector<COEFFICIENT, COEFFICIENTS>& coefficients, const Vector<INPUT, CHANNELS>& before,
                       bool first) {
        Vector<OUTPUT, CHANNELS> inputs;
        Number products[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            state[c] = multiply_add(Number(coefficients[COEFFICIENTS == 1 ? 0 : c]), state[c], cotangents[c]);
            inputs.set(c, state[c]);
            products[c] = first ? number<Number>(0) : multiply(state[c], before[c]);  // even if the state is infinite
        }
        store_vector(const_cast<OUTPUT*>(at<OUTPUT>(du, place, du_step)), inputs);
        store_sums(const_cast<OUTPUT*>(at<OUTPUT>(da, place, da_step)), products);
    };
    auto pass = [&](int count) {
        a += static_cast<long long>(a_step) * count, g += static_cast<long long>(g_step) * count;
        x += static_cast<long long>(x_step) * count, du += static_cast<long long>(du_step) * count;
        da += static_cast<long long>(da_step) * count;
    };
    // One step with nothing on its way, at either end of the line.
    auto step_alone = [&](bool last, bool first) {
        Vector<COEFFICIENT, COEFFICIENTS> coefficients;
        Vector<INPUT, CHANNELS> before;
        coefficients.fill(0);
        before.fill(0);
        if (!last) coefficients = load_vector<COEFFICIENT, COEFFICIENTS>(at<COEFFICIENT>(a, 0, 0));
        if (!first) before = load_vector<INPUT, CHANNELS>(at<INPUT>(x, 0, 0));
        const Vector<INPUT, CHANNELS> cotangents = load_vector<INPUT, CHANNELS>(at<INPUT>(g, 0, 0));
        advance(0, cotangents, coefficients, before, first);
        pass(1);
    };

    step_alone(true, steps == 1);
    long long left = steps - 2;  // without the first step, which no state leads to
    if (left >= STEPS) {
        Chunk chunk;
        Vector<INPUT, CHANNELS> before[STEPS];
        chunk.load(a, a_step, g, g_step);
#pragma unroll
        for (int s = 0; s < STEPS; ++s) before[s] = load_vector<INPUT, CHANNELS>(at<INPUT>(x, s, x_step));
        for (; left >= STEPS; left -= STEPS) {
            const bool more = left >= 2 * STEPS;
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                const Vector<INPUT, CHANNELS> cotangents = chunk.inputs[s];
                const Coefficients coefficients = chunk.coefficients[s];
                const Vector<INPUT, CHANNELS> states = before[s];
                if (more) {
                    // What is used makes room for the same place of the next chunk.
                    chunk.inputs[s] = load_vector<INPUT, CHANNELS>(at<INPUT>(g, STEPS + s, g_step));
                    chunk.coefficients[s] = load_vector<COEFFICIENT, COEFFICIENTS>(at<COEFFICIENT>(a, STEPS + s, a_step));
                    before[s] = load_vector<INPUT, CHANNELS>(at<INPUT>(x, STEPS + s, x_step));
                }
                advance(s, cotangents, coefficients, states, false);
            }
            pass(STEPS);
        }
    }
    for (; left > 0; --left) step_alone(false, false);
    if (steps > 1) step_alone(false, true);
}
