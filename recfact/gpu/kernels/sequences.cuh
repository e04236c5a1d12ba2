// Sequences that lie one behind the other in time: which one a segment of time belongs to.
//
// A segment is a part of a sequence, of as many blocks as all others. Segments of all sequences are counted without a
// table: if `length` is the steps of one, sequence i has those from starts[i] / length + i on. So it has as many as it
// needs, or one more, in which no step lies.
#pragma once

#include "memory.cuh"

// The last index below `count` of which something holds that holds of the first ones, and at least of the first.
template <class Holds>
__device__ __forceinline__ long long last_index(long long count, const Holds& holds) {
    long long low = 0, high = count - 1;
    for (long long k = high; low < high; k = low + (high - low + 1) / 2) {  // mostly the last one at once
        if (holds(k)) {
            low = k;
        } else {
            high = k - 1;
        }
    }
    return low;
}

// A segment as the part of its sequence, or of all time.
struct Segment {
    long long sequence, origin, steps;  // its number, where it starts in the order of the sweep, and its steps
    long long index;                    // of the segment in it

    __device__ __forceinline__ Segment(long long index, long long steps)
        : sequence(0), origin(0), steps(steps), index(index) {}
    // `starts` says where each of the sequences starts, and where the last one ends.
    __device__ __forceinline__ Segment(long long index, const long long* starts, long long sequences,
                                       long long length) {
        sequence = last_index(index < sequences ? index + 1 : sequences,
                              [&](long long k) { return load(starts + k) < (index - k + 1) * length; });
        origin = load(starts + sequence);
        steps = load(starts + sequence + 1) - origin;
        this->index = index - sequence - origin / length;
    }
};

// The steps of a warp at which sequences start, for kernels that go on from one sequence to the next.
//
// Lane s asks for step s. The coefficient of such a step multiplies nothing but the initial state of its sequence.
struct Starts {
    unsigned int steps = 0;  // a bit for each
    long long sequence = 0;  // of the lane's step

    __device__ __forceinline__ void find(const long long* starts, long long sequences, long long position, int lane) {
        position += lane;
        sequence = last_index(sequences, [&](long long k) { return load(starts + k) <= position; });
        steps = __ballot_sync(0xffffffffu, load(starts + sequence) == position);
    }
    __device__ __forceinline__ bool at(int step) const { return steps >> step & 1; }
};
