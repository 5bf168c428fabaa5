#include "trireme/launch/lines.h"

#include <algorithm>

#include "trireme/core/escape.h"

namespace trireme::launch {

// One past the end of the first line in `bytes`, or 0 if it does not end here. Progress
// bars end their lines with \r alone; whether a last \r is one of those shows later.
size_t LinePrefixer::line_end(std::string_view bytes) {
  const size_t end = bytes.find_first_of("\n\r");
  if (end == std::string_view::npos || (bytes[end] == '\r' && end + 1 == bytes.size()))
    return 0;
  return end + (bytes[end] == '\r' && bytes[end + 1] == '\n' ? 2 : 1);
}

void LinePrefixer::add(std::string_view bytes, std::string& out) {
  if (held_.ends_with('\r') && !bytes.empty() && bytes.front() != '\n')
    emit({}, out);
  while (!bytes.empty()) {
    const size_t room = kMostHeld - held_.size();
    const size_t end = line_end(bytes);
    if (end != 0 && end <= room) {
      emit(bytes.substr(0, end), out);
      bytes.remove_prefix(end);
    } else if (bytes.size() < room) {
      held_.append(bytes);
      return;
    } else {
      emit(bytes.substr(0, room), out);
      out.push_back('\n');
      bytes.remove_prefix(room);
    }
  }
}

void LinePrefixer::emit(std::string_view bytes, std::string& out) {
  out.append(prefix_).append(held_).append(bytes);
  held_.clear();
}

void LinePrefixer::finish(std::string& out) {
  if (held_.empty())
    return;
  emit({}, out);
  out.push_back('\n');
}

void Tail::add(std::string_view bytes) {
  cut_ = cut_ || bytes_.size() + bytes.size() > kMostBytes;
  if (bytes.size() >= kMostBytes) {
    bytes_.assign(bytes.substr(bytes.size() - kMostBytes));
    return;
  }
  if (bytes_.size() + bytes.size() > kMostBytes)
    bytes_.erase(0, bytes_.size() + bytes.size() - kMostBytes);
  bytes_.append(bytes);
}

std::string Tail::last_lines(int most) const {
  std::string_view rest = bytes_;
  while (!rest.empty() && (rest.back() == '\n' || rest.back() == '\r'))
    rest.remove_suffix(1);
  size_t start = rest.size();
  for (int line = 0; line < most && start != 0; ++line) {
    const size_t end = start == rest.size() ? start : start - 1;
    const size_t newline =
        end == 0 ? std::string_view::npos : rest.rfind('\n', end - 1);
    const size_t next = newline == std::string_view::npos ? 0 : newline + 1;
    // What is left of a line whose start is gone is shown only if it is all there is.
    if (next == 0 && cut_ && line > 0)
      break;
    start = next;
  }
  return std::string(rest.substr(start));
}

namespace {

// Programs align columns with tabs, which do no harm.
std::string escaped_but_tabs(std::string_view line) {
  std::string out;
  while (true) {
    const size_t tab = std::min(line.find('\t'), line.size());
    out += escaped(line.substr(0, tab));
    if (tab == line.size())
      return out;
    out.push_back('\t');
    line.remove_prefix(tab + 1);
  }
}

}  // namespace

std::string indented(std::string_view text, std::string_view indent) {
  constexpr size_t kMostLine = 500;
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    while (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    text.remove_prefix(std::min(end + 1, text.size()));
    out.append(indent).append(escaped_but_tabs(line.substr(0, kMostLine)));
    out.append(line.size() > kMostLine ? "…\n" : "\n");
  }
  return out;
}

}  // namespace trireme::launch
