#include "trireme/comm/flight_file.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <limits>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::comm {
namespace {

// A full ring takes about 300 KiB.
constexpr size_t kMostBytes = size_t{4} << 20;
constexpr int kMostRanks = 1 << 16;
constexpr int64_t kMostInt = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostLong = std::numeric_limits<int64_t>::max();

[[noreturn]] void refuse(
    const std::string& file, const std::string& wanted, const std::string& got) {
  throw InvalidArgument(text(
      "[comm] expected ",
      wanted,
      " in the flight record ",
      escaped(file),
      ", got ",
      got,
      "; remove the file if it is none of Trireme's, or record again"));
}

// Typed access to the members of one object of the file.
class Members {
 public:
  Members(
      const nlohmann::json& object, const std::string& file, const std::string& where)
      : object_(object), file_(file), where_(where) {
    if (!object.is_object())
      refuse(file, text("an object", where), object.type_name());
  }

  int64_t integer(const char* name, int64_t least, int64_t most) const {
    const nlohmann::json& value = find(name);
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(most) &&
                                static_cast<int64_t>(value.get<uint64_t>()) >= least
                          : value.is_number_integer() &&
                                value.get<int64_t>() >= least &&
                                value.get<int64_t>() <= most;
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
    if (!fits)
      wrong(name, text("a whole number from ", least, " to ", most), value);
#endif
    return value.get<int64_t>();
  }

  std::string string(const char* name, size_t most_bytes) const {
    const nlohmann::json& value = find(name);
    if (!value.is_string() || value.get_ref<const std::string&>().size() > most_bytes)
      wrong(name, text("a text of at most ", most_bytes, " bytes"), value);
    return value.get<std::string>();
  }

  template <class Enum, size_t size>
  Enum word(const char* name, const std::array<const char*, size>& words) const {
    const std::string value = string(name, 20);
    std::string all;
    for (size_t i = 0; i < size; ++i) {
      if (value == words[i])
        return static_cast<Enum>(i);
      all += text(i == 0 ? "" : ", ", words[i]);
    }
    wrong(name, text("one of ", all), find(name));
  }

  const nlohmann::json& list(const char* name, size_t most) const {
    const nlohmann::json& value = find(name);
    if (!value.is_array() || value.size() > most)
      wrong(name, text("a list of at most ", most), value);
    return value;
  }

 private:
  const nlohmann::json& find(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end())
      refuse(file_, text("a member \"", name, "\"", where_), "none");
    return *found;
  }

  [[noreturn]] void wrong(
      const char* name, const std::string& wanted, const nlohmann::json& value) const {
    using Handler = nlohmann::json::error_handler_t;
    refuse(
        file_,
        text("\"", name, "\"", where_, " to be ", wanted),
        value.is_structured() ? text("an ", value.type_name())
                              : in_quotes(value.dump(-1, ' ', true, Handler::replace)));
  }

  const nlohmann::json& object_;
  const std::string& file_;
  const std::string& where_;
};

constexpr std::array kKinds = {"collective", "send", "receive"};
constexpr std::array kStates = {"empty", "started", "done", "failed"};

FlightCall read_call(const Members& from, int size) {
  FlightCall call{
      .ticket = static_cast<uint64_t>(from.integer("ticket", 1, kMostLong)),
      .kind = from.word<FlightKind>("kind", kKinds),
      .state = from.word<FlightState>("state", kStates),
      .group = static_cast<uint32_t>(
          from.integer("group", 0, std::numeric_limits<uint32_t>::max())),
      .sequence = static_cast<uint32_t>(
          from.integer("sequence", 1, std::numeric_limits<uint32_t>::max())),
      .started_ns = from.integer("started_ns", 0, kMostLong),
      .ended_ns = from.integer("ended_ns", 0, kMostLong)};
  if (call.kind == FlightKind::Collective) {
    call.call = from.string("call", 200);
  } else {
    call.bytes = from.integer("bytes", 0, kMostLong);
    call.peer = static_cast<int>(from.integer("peer", 0, size - 1));
    call.tag = static_cast<int>(from.integer("tag", -kMostInt - 1, kMostInt));
  }
  return call;
}

// The bytes of a regular file; a pipe of that name would hold us up for ever.
std::string read_record(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    const std::string why = errno_text(errno);
    if (fd >= 0)
      ::close(fd);
    refuse(file, "text", why);
  }
  std::string content;
  if (S_ISREG(status.st_mode)) {
    content.resize(kMostBytes + 1);
    size_t length = 0;
    ssize_t got = 0;
    while (length < content.size() &&
           (got = ::read(fd, content.data() + length, content.size() - length)) > 0)
      length += static_cast<size_t>(got);
    content.resize(length);
  }
  ::close(fd);
  if (content.empty() || content.size() > kMostBytes)
    refuse(
        file,
        text("1 to ", kMostBytes, " bytes of text"),
        content.empty() ? "no text" : "more");
  return content;
}

// N of rank_N.json, or nothing for other names.
std::optional<int> rank_in_name(const std::string& name) {
  const std::string_view prefix = "rank_", suffix = ".json";
  if (!name.starts_with(prefix) || !name.ends_with(suffix))
    return std::nullopt;
  const char* end = name.data() + name.size() - suffix.size();
  int rank = -1;
  const auto parsed = std::from_chars(name.data() + prefix.size(), end, rank);
  // Written back, so that rank_01.json is no second record of rank 1.
  if (parsed.ec != std::errc() || name != text(prefix, rank, suffix))
    return std::nullopt;
  return rank;
}

std::vector<std::pair<int, std::string>> list_records(
    const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::pair<int, std::string>> found;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end;
       entry.increment(error))
    if (const auto rank = rank_in_name(entry->path().filename().string()))
      found.emplace_back(*rank, entry->path().string());
  if (error || found.empty())
    throw InvalidArgument(text(
        "[comm] expected a folder with flight records (rank_0.json …), got ",
        in_quotes(folder.string()),
        error ? text(", which cannot be read: ", error.message()) : ", which has none",
        "; the log of the job that stopped names it"));
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

FlightFile parse_flight(std::string_view json, const std::string& file) {
  const auto content = nlohmann::json::parse(json, nullptr, false);
  if (content.is_discarded())
    refuse(file, "JSON", "other text (perhaps it was cut off)");
  const std::string nowhere;
  const Members top(content, file, nowhere);
  if (const std::string format = top.string("format", 100);
      format != "trireme flight 1")
    refuse(file, "the format \"trireme flight 1\"", in_quotes(format));
  FlightFile record;
  record.size = static_cast<int>(top.integer("size", 1, kMostRanks));
  record.rank = static_cast<int>(top.integer("rank", 0, record.size - 1));
  record.written_by = static_cast<int>(top.integer("written_by", 0, record.size - 1));
  if (content.contains("written_ns"))
    record.written_ns = top.integer("written_ns", 0, kMostLong);
  record.reason = top.string("reason", 1 << 16);
  uint64_t last_ticket = 0;
  for (const nlohmann::json& entry : top.list("calls", kFlightEntries)) {
    const std::string where = text(" of entry ", record.calls.size() + 1);
    record.calls.push_back(read_call(Members(entry, file, where), record.size));
    if (record.calls.back().ticket <= last_ticket)
      refuse(file, text("tickets that grow, also", where), "one that does not");
    last_ticket = record.calls.back().ticket;
  }
  return record;
}

std::vector<FlightFile> load_flight(const std::filesystem::path& folder) {
  std::vector<FlightFile> records;
  for (const auto& [rank, file] : list_records(folder)) {
    records.push_back(parse_flight(read_record(file), file));
    const FlightFile& record = records.back();
    if (record.rank != rank)
      refuse(file, text("rank ", rank), text("rank ", record.rank));
    if (record.size != records.front().size)
      refuse(
          file,
          text(records.front().size, " ranks as in the other records of the folder"),
          text(record.size, " ranks, so they are of two jobs"));
  }
  return records;
}

}  // namespace trireme::comm
