// checkpoint.json: what a checkpoint's folder must hold. Its presence says that the
// folder is complete. No file is touched here.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace trireme::ckpt {

inline constexpr const char* kManifestName = "checkpoint.json";

/// The step, the number of stages, and every file with its size.
struct Manifest {
  int64_t step = 0;
  int stages = 1;
  std::map<std::string, uint64_t> files;
};

std::string write_manifest(const Manifest& manifest);

/// InvalidArgument, with the file's name, for anything that is not such a text.
Manifest parse_manifest(std::string_view json, const std::string& file);

}  // namespace trireme::ckpt
