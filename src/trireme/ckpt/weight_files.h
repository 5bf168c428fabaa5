// The weights of a model folder as Hugging Face lays them out: one file, or several
// with an index.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/ckpt/safetensors.h"

namespace trireme::ckpt {

/// All tensors of a folder, whichever file they lie in: STEM.safetensors if there is
/// one, else those that STEM.safetensors.index.json names. Every file is opened and its
/// header checked here; each wrong one is named. May be used from several threads.
///
///     const WeightFiles weights("models/gpt2");
///     at::Tensor table = weights.read("wte.weight");
class WeightFiles {
 public:
  explicit WeightFiles(
      const std::filesystem::path& folder, const std::string& stem = "model");

  const std::filesystem::path& folder() const { return folder_; }
  /// In the order of the alphabet.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return file_of_.contains(name); }
  /// InvalidArgument for a name that is not there.
  const TensorEntry& entry(const std::string& name) const;
  /// A tensor of its own memory.
  at::Tensor read(const std::string& name) const;
  /// The tensor in the pages of its file, for reading only; see SafetensorsFile::view.
  at::Tensor view(const std::string& name) const;

 private:
  const SafetensorsFile& file(const std::string& name) const;
  void open_index(const std::filesystem::path& index);

  std::filesystem::path folder_;
  std::string stem_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;
};

/// "STEM.safetensors".
std::string single_name(const std::string& stem);

/// "model-00001-of-00003.safetensors": file `number` (from 1 on) of `count`.
std::string shard_name(const std::string& stem, int number, int count);

/// "STEM.safetensors.index.json".
std::string index_name(const std::string& stem);

/// Where every tensor lies: the text of an index.
struct WeightIndex {
  uint64_t total_bytes = 0;
  /// File by tensor.
  std::map<std::string, std::string> files;
};
std::string write_weight_index(const WeightIndex& index);

/// Reads it again. InvalidArgument if it is no index, or if a file's name leads out of
/// the folder. A missing total is 0.
WeightIndex parse_weight_index(std::string_view json, const std::string& file);

}  // namespace trireme::ckpt
