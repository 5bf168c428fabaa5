#include "trireme/ckpt/weight_files.h"

#include <array>
#include <cstdio>

#include "trireme/ckpt/json_reader.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::ckpt {
namespace {

// The largest published models have an index of a few megabytes.
constexpr uint64_t kMostIndexBytes = uint64_t{256} << 20;

[[noreturn]] void refuse_folder(
    const std::filesystem::path& folder, const std::string& stem) {
  std::error_code ignored;
  const bool there = std::filesystem::is_directory(folder, ignored);
  const bool pickled =
      std::filesystem::exists(folder / "pytorch_model.bin", ignored) ||
      std::filesystem::exists(folder / "pytorch_model.bin.index.json", ignored);
  refuse(
      escaped(folder.string()),
      text(single_name(stem), " or ", index_name(stem)),
      !there    ? "no folder of that name"
      : pickled ? "pytorch_model.bin"
                : "neither",
      pickled ? "convert it with transformers: save_pretrained(folder, "
                "safe_serialization=True)"
              : "give the folder of a model or of a checkpoint");
}

}  // namespace

WeightFiles::WeightFiles(const std::filesystem::path& folder, const std::string& stem)
    : folder_(folder), stem_(stem) {
  std::error_code ignored;
  const auto single = folder / single_name(stem);
  const auto index = folder / index_name(stem);
  // In this order, as transformers does it.
  if (std::filesystem::exists(single, ignored)) {
    files_.emplace_back(single);
    for (const TensorEntry& tensor : files_[0].header().tensors)
      file_of_[tensor.name] = 0;
  } else if (std::filesystem::exists(index, ignored)) {
    open_index(index);
  } else {
    refuse_folder(folder, stem);
  }
}

void WeightFiles::open_index(const std::filesystem::path& index) {
  const WeightIndex wanted =
      parse_weight_index(read_file(index, kMostIndexBytes), index.string());
  std::map<std::string, size_t> opened;
  for (const auto& [name, file] : wanted.files) {
    const auto [place, fresh] = opened.emplace(file, files_.size());
    if (fresh)
      files_.emplace_back(folder_ / file);
    if (!files_[place->second].has(name))
      refuse(
          escaped((folder_ / file).string()),
          text("the tensor ", in_quotes(name), ", as ", index_name(stem_), " says"),
          "none of that name",
          "the files are not of one model, or damaged");
    file_of_[name] = place->second;
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_)
    names.push_back(name);
  return names;
}

const SafetensorsFile& WeightFiles::file(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end())
    refuse(
        text(escaped(folder_.string()), ", ", stem_, " files"),
        text("the tensor ", in_quotes(name)),
        text(
            file_of_.size(),
            " others",
            file_of_.empty() ? "" : ", such as ",
            file_of_.empty() ? "" : in_quotes(file_of_.begin()->first)));
  return files_[found->second];
}

const TensorEntry& WeightFiles::entry(const std::string& name) const {
  return file(name).entry(name);
}

at::Tensor WeightFiles::read(const std::string& name) const {
  return file(name).read(name);
}

at::Tensor WeightFiles::view(const std::string& name) const {
  return file(name).view(name);
}

std::string single_name(const std::string& stem) {
  return stem + ".safetensors";
}

std::string shard_name(const std::string& stem, int number, int count) {
  TRIREME_ASSERT(1 <= number && number <= count);
  std::array<char, 64> tail{};
  std::snprintf(tail.data(), tail.size(), "-%05d-of-%05d.safetensors", number, count);
  return stem + tail.data();
}

std::string index_name(const std::string& stem) {
  return stem + ".safetensors.index.json";
}

std::string write_weight_index(const WeightIndex& index) {
  const Json json = {
      {"metadata", {{"total_size", index.total_bytes}}},
      {"weight_map", Json(index.files)}};
  return json_text(json, 2, "the index of the weights") + "\n";
}

WeightIndex parse_weight_index(std::string_view json, const std::string& file) {
  const std::string where = escaped(file);
  const Json root = parse_json(json, where);
  WeightIndex index;
  const Json& map = member(root, "weight_map", where);
  if (!map.is_object())
    refuse(where, "\"weight_map\" to be an object", shown(map));
  for (const auto& [name, value] : map.items()) {
    if (!value.is_string() || !is_plain_file_name(value.get_ref<const std::string&>()))
      refuse(
          where,
          text("the tensor ", in_quotes(name), " to lie in a file of this folder"),
          shown(value));
    index.files[name] = value.get<std::string>();
  }
  // Foreign files have it as a real number, or not at all; nobody relies on it.
  if (const auto metadata = root.find("metadata");
      metadata != root.end() && metadata->is_object())
    if (const auto total = metadata->find("total_size");
        total != metadata->end() && total->is_number_unsigned())
      index.total_bytes = total->get<uint64_t>();
  return index;
}

}  // namespace trireme::ckpt
