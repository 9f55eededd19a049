// Declarations of the streams, for parsing only.
#pragma once

namespace hls {

template <class T, int Depth = 0>
class stream {
   public:
    stream() {}
    explicit stream(const char*) {}
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    T read() { return T(); }
    void read(T&) {}
    void write(const T&) {}
    bool read_nb(T&) { return false; }
    bool write_nb(const T&) { return false; }
    bool empty() const { return false; }
    bool full() const { return false; }
    unsigned size() const { return 0; }
    stream& operator<<(const T&) { return *this; }
    stream& operator>>(T&) { return *this; }
};

}  // namespace hls
