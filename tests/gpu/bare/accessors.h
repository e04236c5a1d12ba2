// Memory, bare: what memory.cuh offers, as plain accesses.
#pragma once

template <class T>
T load(const T* from) {
    return *from;
}
template <class T>
void store(T* to, T value) {
    *to = value;
}
template <class T>
T load_shared(const T* from) {
    return *from;
}
template <class T>
void store_shared(T* to, T value) {
    *to = value;
}
inline void copy16_async(void* shared, const void* global, int valid) {
    std::memset(shared, 0, 16);
    std::memcpy(shared, global, valid);
}
inline void commit_async() {}
template <int GROUPS>
void wait_async() {}
inline unsigned int load_acquire(const unsigned int* flag) {
    bare::pass_turn();
    return *flag;
}
inline void store_release(unsigned int* flag, unsigned int value) { *flag = value; }
