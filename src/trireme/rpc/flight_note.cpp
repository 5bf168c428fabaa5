#include "trireme/rpc/flight_note.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "trireme/comm/flight_recorder.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/log.h"

namespace trireme::rpc {

namespace {

constexpr std::size_t kMostLoggedLines = 20;

}  // namespace

bool FlightNotes::due() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (last_.time_since_epoch().count() != 0 && now - last_ < std::chrono::seconds(1))
    return false;
  if (writing_.load() > 0)
    return false;  // the disk is slower than that
  last_ = now;
  return true;
}

void FlightNotes::write(
    std::string why, std::vector<std::string> waiting, std::size_t running) {
  ++writing_;
  writer_.at(
      Errands::Clock::now(),
      [this, why = std::move(why), waiting = std::move(waiting), running] {
        put_down(why, waiting, running);
        --writing_;
      });
}

void FlightNotes::put_down(
    const std::string& why,
    const std::vector<std::string>& waiting,
    std::size_t running) const {
  const auto note = [&](std::size_t most) {
    std::string lines = text(
        "worker ",
        worker_,
        ": ",
        escaped(why),
        "; it serves ",
        running,
        " calls of others, and waits for ",
        waiting.size(),
        ":");
    for (std::size_t i = 0; i < std::min(waiting.size(), most); ++i)
      lines += "\n  " + escaped(waiting[i]);
    if (waiting.size() > most)
      lines += text("\n  and ", waiting.size() - most, " more");
    return lines;
  };
  TRIREME_LOG(warn, "rpc") << note(kMostLoggedLines);
  const std::string folder = comm::flight_folder(job_);
  if (folder.empty())
    return;
  try {
    std::filesystem::create_directories(folder);
    write_durably(
        std::filesystem::path(folder) / ("rpc-" + worker_ + ".txt"),
        note(waiting.size()) + "\n");
  } catch (const std::exception& error) {
    TRIREME_LOG(warn, "rpc") << "no record of it was written: " << error.what();
  }
}

}  // namespace trireme::rpc
