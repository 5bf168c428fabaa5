#include "trireme/comm/flight_recorder.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "trireme/comm/collective.h"
#include "trireme/core/clock.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"

namespace trireme::comm {
namespace {

constexpr std::array kEntryNames = {"collective", "send", "receive"};
constexpr std::array kStateNames = {"empty", "started", "done", "failed"};

nlohmann::json to_json(const FlightEntry& entry, uint64_t ticket) {
  nlohmann::json out = {
      {"ticket", ticket},
      {"kind", kEntryNames[static_cast<size_t>(entry.kind)]},
      {"state", kStateNames[static_cast<size_t>(entry.state.load())]},
      {"group", entry.group},
      {"sequence", entry.sequence},
      {"started_ns", entry.started_ns},
      {"ended_ns", entry.ended_ns.load()}};
  if (entry.kind == FlightKind::Collective) {
    out["call"] = describe(entry.what);
  } else {
    out["bytes"] = entry.what;
    out["peer"] = entry.peer;
    out["tag"] = entry.tag;
  }
  return out;
}

std::string private_root() {
  const char* temporary = std::getenv("TMPDIR");
  return text(
      temporary && *temporary ? temporary : "/tmp", "/trireme-flight-", geteuid());
}

// Our own corner of the temporary folder must be ours: somebody else may have been
// there first, with a link to what is ours elsewhere. A folder that was asked for may
// be any.
bool is_safe(const std::filesystem::path& folder) {
  if (folder.parent_path() != private_root())
    return true;
  struct stat status {};
  return ::lstat(private_root().c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid();
}

// Makes the folder; true if it was not there before.
bool make_folder(const std::filesystem::path& folder) {
  if (folder.parent_path() == private_root())
    ::mkdir(private_root().c_str(), 0700);
  if (!is_safe(folder))
    throw InvalidArgument(text(
        "[comm] expected ",
        private_root(),
        " to be a folder of this user, got another's or a file; remove it, or set "
        "TRIREME_FLIGHT_DIR"));
  return std::filesystem::create_directories(folder);
}

nlohmann::json ring_to_json(const FlightEntry* ring) {
  std::vector<std::pair<uint64_t, const FlightEntry*>> order;
  for (size_t i = 0; i < kFlightEntries; ++i)
    if (const uint64_t ticket = ring[i].ticket.load(std::memory_order_acquire))
      order.emplace_back(ticket, &ring[i]);
  std::sort(order.begin(), order.end());
  nlohmann::json calls = nlohmann::json::array();
  for (const auto& [ticket, entry] : order)
    calls.push_back(to_json(*entry, ticket));
  return calls;
}

}  // namespace

std::string flight_folder(const std::string& job) {
  if (const char* set = std::getenv("TRIREME_FLIGHT_DIR"))
    return set;
  return text(private_root(), "/", job);
}

FlightRecorder::FlightRecorder(
    std::byte* rings,
    int rank,
    int size,
    std::string folder,
    std::shared_ptr<void> keep)
    : rings_(rings),
      rank_(rank),
      size_(size),
      folder_(std::move(folder)),
      keep_(std::move(keep)) {
  // A job must not find an earlier one's records in its folder. Rank 0 clears what a
  // larger world left, too.
  if (folder_.empty() || !is_safe(folder_))
    return;
  ::unlink(file_of(rank_).c_str());
  for (int old = size_; rank_ == 0 && ::unlink(file_of(old).c_str()) == 0; ++old) {
  }
  if (rank_ == 0)
    ::rmdir(folder_.c_str());  // only if it is empty
}

std::string FlightRecorder::file_of(int rank) const {
  return text(folder_, "/rank_", rank, ".json");
}

FlightEntry* FlightRecorder::ring(int rank) const {
  return reinterpret_cast<FlightEntry*>(
      rings_ + kFlightRingBytes * static_cast<size_t>(rank));
}

FlightRecorder::Record FlightRecorder::begin(const Call& call) {
  const uint64_t ticket = next_.fetch_add(1, std::memory_order_relaxed) + 1;
  FlightEntry& entry = ring(rank_)[ticket % kFlightEntries];
  entry.ticket.store(0, std::memory_order_relaxed);
  entry.what = call.what;
  entry.started_ns = now_ns();
  entry.ended_ns.store(0, std::memory_order_relaxed);
  entry.group = call.group;
  entry.sequence = call.sequence;
  entry.peer = call.peer;
  entry.tag = call.tag;
  entry.kind = call.kind;
  entry.state.store(FlightState::Started, std::memory_order_relaxed);
  entry.ticket.store(ticket, std::memory_order_release);
  return Record(&entry, ticket);
}

void FlightRecorder::Record::end(FlightState state) {
  if (entry_ == nullptr)
    return;
  if (still_here()) {
    entry_->ended_ns.store(now_ns(), std::memory_order_relaxed);
    entry_->state.store(state, std::memory_order_release);
  }
  entry_ = nullptr;
}

void FlightRecorder::dump(int rank, const std::string& reason) const noexcept try {
  if (folder_.empty())
    return;
  const std::filesystem::path folder(folder_);
  const bool first = make_folder(folder);
  const std::filesystem::path file = file_of(rank);
  // What a rank wrote of itself is better than what the survivors saw.
  if (rank != rank_ && std::filesystem::exists(file))
    return;
  const nlohmann::json record = {
      {"format", "trireme flight 1"},
      {"rank", rank},
      {"size", size_},
      {"written_by", rank_},
      {"reason", reason},
      {"written_ns", now_ns()},
      {"calls", ring_to_json(ring(rank))}};
  const auto partial = folder / text(".rank_", rank, "_by_", rank_, "_", getpid());
  {
    std::ofstream out(partial);
    out << record.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) << '\n';
    if (!out.flush()) {
      std::filesystem::remove(partial);
      throw InvalidArgument(text(
          "[comm] expected to write ",
          partial.string(),
          ", got a failure; free room there, or set TRIREME_FLIGHT_DIR"));
    }
  }
  std::error_code error;
  std::filesystem::rename(partial, file, error);
  if (error) {
    std::filesystem::remove(partial);
    throw InvalidArgument(text(
        "[comm] expected to write ",
        file.string(),
        ", got ",
        error.message(),
        "; set TRIREME_FLIGHT_DIR to another folder"));
  }
  if (first)
    TRIREME_LOG(warn, "comm") << "what the ranks were doing is in " << folder_
                              << "; read it with: trireme doctor --flight " << folder_;
} catch (const std::exception& error) {
  TRIREME_LOG(warn, "comm") << "no flight record of rank " << rank << ": "
                            << error.what();
}

std::shared_ptr<FlightRecorder> make_own_recorder(
    int rank, int size, const std::string& folder) {
  const size_t bytes = kFlightRingBytes * static_cast<size_t>(size);
  void* memory = ::mmap(
      nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  const std::shared_ptr<void> rings(
      memory, [bytes](void* start) { ::munmap(start, bytes); });
  return std::make_shared<FlightRecorder>(
      static_cast<std::byte*>(rings.get()), rank, size, folder, rings);
}

}  // namespace trireme::comm
