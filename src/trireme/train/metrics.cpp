#include "trireme/train/metrics.h"

#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::train {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

[[noreturn]] void refuse(const std::filesystem::path& path, int code) {
  throw InvalidArgument(text(
      "[train] expected to write ",
      in_quotes(path.string()),
      ", got ",
      errno_text(code),
      "; check job.dump_folder and the disk"));
}

// The lines of steps up to `done`; a line that was cut off by a kill is left out.
std::string lines_until(const std::filesystem::path& path, int64_t done) {
  std::ifstream in(path);
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const Json read = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool whole =
        read.is_object() && read.contains("step") && read["step"].is_number_integer();
    if (whole && read["step"].get<int64_t>() <= done)
      kept += text(line, "\n");
  }
  return kept;
}

void write_all(const std::filesystem::path& path, int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      refuse(path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string to_json(const StepMetrics& metrics) {
  Json json{
      {"step", metrics.step},
      {"loss", number(metrics.loss)},
      {"grad_norm", number(metrics.grad_norm)},
      {"lr", number(metrics.lr)},
      {"tokens", metrics.tokens},
      {"tokens_per_s", number(metrics.tokens_per_s)},
      {"bubble", number(metrics.bubble)},
      {"peak_bytes", metrics.peak_bytes}};
  if (metrics.skipped)
    json["skipped"] = true;
  if (metrics.held_out_loss)
    json["held_out_loss"] = number(*metrics.held_out_loss);
  return json.dump();
}

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t done)
    : path_(path) {
  write_durably(path, done > 0 ? lines_until(path, done) : "");
  fd_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0)
    refuse(path, errno);
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

void MetricsFile::write(const StepMetrics& metrics) {
  write_all(path_, fd_, text(to_json(metrics), "\n"));
}

}  // namespace trireme::train
