// The five kinds of error that Trireme throws, and the form of their messages.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace trireme {

/// The base of everything that Trireme throws on purpose. Every message has the form
/// "[module] what was expected, what came; what to do".
///
///     try { comm::all_reduce(group, tensor); }
///     catch (const trireme::PeerError& e) { std::cerr << e.rank() << " failed\n"; }
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller asked for something that cannot be: a wrong rank, tensor, option or
/// variable.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// The request makes sense, but this build or this backend cannot do it.
class NotSupported : public Error {
 public:
  using Error::Error;
};

/// Another rank failed, left or died. Every rank of the world gets the same error.
class PeerError : public Error {
 public:
  PeerError(int rank, const std::string& what) : Error(what), rank_(rank) {}
  /// The rank, counted in the world, where the trouble began.
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// A deadline passed. The message names who was missing.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// Trireme itself is wrong: please report it.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Joins its arguments with operator<<, for messages: `text("rank ", 3, " of ", 4)`.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// The text of errno `code`, as "No such file or directory (errno 2)".
std::string errno_text(int code);

/// Throws InternalError with the place; what TRIREME_ASSERT calls.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace trireme

/// Checks what must hold whatever the caller does. Stays in release builds.
#define TRIREME_ASSERT(condition)                                  \
  do {                                                             \
    if (!(condition)) [[unlikely]]                                 \
      ::trireme::assertion_failed(#condition, __FILE__, __LINE__); \
  } while (false)
