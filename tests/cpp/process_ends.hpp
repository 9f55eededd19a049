// The other end of a stream that a process reads: hands out beats when they are asked for, now and then not at once.
#pragma once
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bfpga/ports/stream.hpp"
#include "bfpga/processes/wires.hpp"

template <class T>
class Sender : public bfpga::StreamWaits {
   public:
    // Asked without waiting, it has nothing yet in `rarely` of 8 cases.
    Sender(const char* name, uint32_t seed, unsigned rarely) : to(name), random_(seed), rarely_(rarely) {
        to.join(*this);
    }

    void wait(const std::string& stream, bool) override {
        if (next_ == words.size() || !may(next_)) {
            throw bfpga::StreamError("stream `" + stream + "` has no more words");
        }
        give();
    }

    void polled(const std::string&) override {
        if (next_ < words.size() && may(next_) && random_() % 8 >= rarely_) {
            give();
        }
    }

    bool empty() const { return next_ == words.size() && to.empty(); }

    bfpga::stream<T> to;
    std::vector<T> words;
    // Whether the word of a number may be there already.
    std::function<bool(std::size_t)> may = [](std::size_t) { return true; };

   private:
    void give() { to.write(words[next_++]); }

    std::mt19937 random_;
    unsigned rarely_;
    std::size_t next_ = 0;
};

// The same words so many times, one after the other.
template <class T>
void repeat(std::vector<T>& words, int times) {
    const std::vector<T> once = words;
    words.clear();
    for (int n = 0; n < times; ++n) {
        words.insert(words.end(), once.begin(), once.end());
    }
}

template <class Beat>
using BeatSender = Sender<bfpga::wire_t<Beat>>;
