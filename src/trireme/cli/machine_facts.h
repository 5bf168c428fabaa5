// What doctor says about the host beyond core's Machine: leftovers in shared memory,
// GPUs.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::cli {

/// A file of Trireme in the folder of shared memory.
struct LeftSegment {
  std::string name;
  /// The name of its owner, or "user 1000" where it has none.
  std::string owner;
  /// What it takes of the memory; a segment's length says nothing, as it is sparse.
  std::uint64_t bytes = 0;
};

/// The files trireme-* in `folder`, in order of name; none if it cannot be read.
std::vector<LeftSegment> left_segments(
    const std::filesystem::path& folder = "/dev/shm");

/// The NVIDIA GPUs, as the files of their driver tell.
struct GpuFacts {
  /// The devices, as /dev/nvidia0.
  std::vector<std::string> devices;
  /// Their models, where the driver names them.
  std::vector<std::string> models;
  /// The first line of the driver's version; empty without a driver.
  std::string driver;
};

/// Reads what lies in /dev and /proc/driver/nvidia below `root`; no library is loaded.
GpuFacts read_gpus(const std::filesystem::path& root = "/");

}  // namespace trireme::cli
