// What a simulated stream tells who runs the processes at its two ends.
#pragma once
#include <cstdint>
#include <string>

namespace bfpga {

// Who runs processes that are joined by streams. A stream that has none of these stops its user with an error where it
// would have to wait.
class StreamWaits {
   public:
    virtual ~StreamWaits() {}

    // The process that runs can go on only when `stream` has a word (`reads`) or room for one: lets others run.
    virtual void wait(const std::string& stream, bool reads) = 0;
    // The process found `stream` empty and goes on without its word: lets others run if the process does nothing else.
    virtual void polled(const std::string& stream) = 0;
    // A word entered or left a stream.
    void moved() { ++transfers_; }
    // Whether a stream shall pretend to be empty or full this time; a test of all that may happen in hardware.
    bool refuses() { return disturbs_ && pretends(); }

    uint64_t transfers() const { return transfers_; }
    bool disturbs() const { return disturbs_; }

   protected:
    virtual bool pretends() { return false; }

    uint64_t transfers_ = 0;
    bool disturbs_ = false;
};

}  // namespace bfpga
