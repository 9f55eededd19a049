// Checks of a simulation: a schedule that the hardware could not execute stops with a sentence.
#pragma once

#if !defined(__SYNTHESIS__) && !defined(__BAMBU__)
#define BFPGA_SIMULATION
#include <stdexcept>
#include <string>
#endif

namespace bfpga {

#ifdef BFPGA_SIMULATION
// A descriptor that breaks a rule of the array.
struct ScheduleError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A stream that will never have what its user waits for.
struct StreamError : std::runtime_error {
    using std::runtime_error::runtime_error;
};
#endif

// In a simulation, throws "<who> <what> <number>" unless `holds`; nothing in hardware.
inline void simulation_check(bool holds, const char* who, const char* what, long long number) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
    if (!holds) {
        throw ScheduleError(std::string(who) + " " + what + " " + std::to_string(number));
    }
#else
    (void)holds;
    (void)who;
    (void)what;
    (void)number;
#endif
}

}  // namespace bfpga
