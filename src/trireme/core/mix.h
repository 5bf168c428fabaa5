// Numbers that look random, and follow from others.
#pragma once
#include <cstdint>

namespace trireme {

/// What splitmix64 counts on by: numbers that it apart are scattered well.
inline constexpr uint64_t kMixStep = 0x9E3779B97F4A7C15;

/// Scatters the bits of a number: a bijection in which each bit depends on all
/// (splitmix64's, of Steele, Lea and Flood, 2014). 0 stays 0: add kMixStep before.
constexpr uint64_t mix(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EB;
  return number ^ (number >> 31);
}

}  // namespace trireme
