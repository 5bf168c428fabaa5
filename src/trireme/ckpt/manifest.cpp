#include "trireme/ckpt/manifest.h"

#include <limits>

#include "trireme/ckpt/json_reader.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::ckpt {
namespace {

constexpr const char* kFormat = "trireme checkpoint 1";
constexpr int kMostStages = 99'999;
constexpr uint64_t kMostInt64 = std::numeric_limits<int64_t>::max();

}  // namespace

std::string write_manifest(const Manifest& manifest) {
  const Json json = {
      {"format", kFormat},
      {"step", manifest.step},
      {"stages", manifest.stages},
      {"files", Json(manifest.files)}};
  return json_text(json, 2, kManifestName) + "\n";
}

Manifest parse_manifest(std::string_view json, const std::string& file) {
  const std::string where = escaped(file);
  const Json root = parse_json(json, where);
  if (const Json& format = member(root, "format", where); format != kFormat)
    refuse(
        where,
        text("the format \"", kFormat, "\""),
        shown(format),
        "a newer Trireme may have written it");
  Manifest manifest;
  manifest.step = static_cast<int64_t>(
      whole_number(member(root, "step", where), kMostInt64, "\"step\"", where));
  manifest.stages = static_cast<int>(
      whole_number(member(root, "stages", where), kMostStages, "\"stages\"", where));
  const Json& files = member(root, "files", where);
  if (!files.is_object())
    refuse(where, "\"files\" to be an object", shown(files));
  for (const auto& [name, bytes] : files.items()) {
    if (!is_plain_file_name(name))
      refuse(where, "files of this folder", in_quotes(name));
    manifest.files[name] =
        whole_number(bytes, kMostInt64, text("the size of ", in_quotes(name)), where);
  }
  return manifest;
}

}  // namespace trireme::ckpt
