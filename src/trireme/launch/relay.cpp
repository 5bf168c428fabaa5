#include "trireme/launch/relay.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/epoll.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::launch {
namespace {

// A log on a full disk is cut short; the job goes on.
void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      return;
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(0, written)));
  }
}

}  // namespace

Relay::Relay() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0)
    throw Error(text(
        "[launch] expected an epoll, got ", errno_text(errno), "; raise ulimit -n"));
}

Relay::~Relay() {
  for (auto& [key, stream] : streams_)
    close(stream);
  ::close(epoll_);
}

void Relay::add(int rank, bool err, int pipe, StreamTarget target) {
  Stream& stream = streams_[{rank, err}];
  stream.pipe = pipe;
  stream.target = std::move(target);
  if (!stream.target.prefix.empty())
    stream.prefixer.emplace(stream.target.prefix);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &stream;  // a map's elements stay where they are
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, pipe, &event) != 0)
    throw Error(text(
        "[launch] expected to watch a pipe, got ",
        errno_text(errno),
        "; raise fs.epoll.max_user_watches"));
}

void Relay::pass_on() {
  std::array<epoll_event, 64> events{};
  const int ready = ::epoll_wait(epoll_, events.data(), events.size(), 0);
  for (int i = 0; i < ready; ++i)
    read_some(*static_cast<Stream*>(events[static_cast<size_t>(i)].data.ptr));
}

bool Relay::read_some(Stream& stream) {
  std::array<char, size_t{64} << 10> buffer;
  const ssize_t got = ::read(stream.pipe, buffer.data(), buffer.size());
  if (got <= 0) {
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
      close(stream);
    return false;
  }
  const std::string_view bytes(buffer.data(), static_cast<size_t>(got));
  stream.tail.add(bytes);
  if (stream.target.file >= 0)
    write_all(stream.target.file, bytes);
  Console* console = stream.target.console;
  if (console == nullptr)
    return true;
  if (stream.prefixer)
    stream.prefixer->add(bytes, console->pending());
  else
    console->pending().append(bytes);
  console->flush();
  // Where nobody reads what a program prints, it learns that by SIGPIPE.
  if (console->gone() && stream.target.file < 0)
    close(stream);
  return stream.pipe >= 0;
}

void Relay::drain(int rank) {
  // A pipe holds at most 1 MiB; a child that goes on printing must not hold us up.
  constexpr int kMostReads = 64;
  for (const bool err : {false, true})
    if (const auto found = streams_.find({rank, err}); found != streams_.end())
      for (int i = 0; i < kMostReads && found->second.pipe >= 0; ++i)
        if (!read_some(found->second))
          break;
}

std::string Relay::last_lines(int rank, int most) const {
  const auto found = streams_.find({rank, true});
  return found == streams_.end() ? "" : found->second.tail.last_lines(most);
}

void Relay::clear() {
  for (auto& [key, stream] : streams_) {
    drain(key.first);
    close(stream);
  }
  streams_.clear();
}

void Relay::close_in_child() {
  ::close(epoll_);
  for (const auto& [key, stream] : streams_)
    if (stream.pipe >= 0) {
      ::close(stream.pipe);
      if (stream.target.file >= 0)
        ::close(stream.target.file);
    }
}

void Relay::close(Stream& stream) {
  if (stream.pipe < 0)
    return;
  if (stream.prefixer && stream.target.console != nullptr)
    stream.prefixer->finish(stream.target.console->pending());
  // By name: it may be open in a rank that is a fork of this process, too.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, stream.pipe, nullptr);
  ::close(stream.pipe);
  stream.pipe = -1;
  if (stream.target.file >= 0)
    ::close(stream.target.file);
  stream.target.file = -1;
}

}  // namespace trireme::launch
