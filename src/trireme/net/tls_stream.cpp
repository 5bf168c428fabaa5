#include "trireme/net/tls_stream.h"

#include <new>
#include <sys/socket.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"
#include "trireme/net/record_cutter.h"

namespace trireme::net {

TlsStream::TlsStream(
    std::shared_ptr<const TlsContext> context, FileDescriptor socket, Side side)
    : context_(std::move(context)),
      socket_(std::move(socket)),
      ssl_(SSL_new(context_->parts_->context.get())) {
  if (ssl_ == nullptr)
    throw std::bad_alloc();
  if (context_->parts_->key) {
    notes_.emplace(*context_->parts_->key);
    SSL_set_app_data(ssl_.get(), &*notes_);
  }
  BIO* bio = socket_.make_bio(context_->parts_->socket_method.get()).release();
  SSL_set_bio(ssl_.get(), bio, bio);
  if (side == Side::Dialer)
    SSL_set_connect_state(ssl_.get());
  else
    SSL_set_accept_state(ssl_.get());
}

Io TlsStream::handshake() {
  if (failed_)
    return {.state = Io::State::Closed};
  if (!through_) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    socket_.flush();  // where it went wrong, the other side is told
    if (result != 1)
      return failed_handshake(result);
    check_agreement();
    through_ = true;
  }
  // Until all is sent: the other side waits for it, and nobody may ever call write().
  return socket_.flush() ? Io{.state = Io::State::Done} : stopped_sending();
}

Io TlsStream::failed_handshake(int result) {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ)
    return socket_.broken() ? stopped_sending() : Io{.state = Io::State::Blocked};
  const bool cut =
      ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  const TlsTrouble trouble = take_tls_trouble(*ssl_, notes_ ? &*notes_ : nullptr);
  if (trouble.no_tls)
    socket_.show_tls();
  if (error == SSL_ERROR_SSL && !cut)
    refuse(trouble);
  failed_ = true;
  return closed(
      socket_.broken() ? socket_.trouble() : "the other side closed in the handshake");
}

void TlsStream::refuse(const TlsTrouble& why) {
  failed_ = true;
  trouble_ = why.got;
  throw Error(text(
      "[net] expected a peer with ",
      context_->text(),
      ", got ",
      why.got,
      "; ",
      why.remedy));
}

// OpenSSL has seen to all this. Should a setting ever be lost, it must not go unseen.
void TlsStream::check_agreement() {
  const bool fresh = SSL_get_negotiated_group(ssl_.get()) != NID_undef;
  const bool by_key = SSL_session_reused(ssl_.get()) == 1;
  const bool by_certificate = SSL_get0_peer_certificate(ssl_.get()) != nullptr &&
                              SSL_get_verify_result(ssl_.get()) == X509_V_OK;
  const bool proved = notes_ ? by_key : !by_key && by_certificate;
  if (SSL_version(ssl_.get()) != TLS1_3_VERSION || !fresh || !proved)
    refuse(
        {"one that has proved nothing",
         "report it: OpenSSL does not do as Trireme has told it"});
}

Io TlsStream::read(std::span<const iovec> parts) {
  TRIREME_ASSERT(through_);
  if (failed_)
    return {.state = Io::State::Closed};
  ERR_clear_error();  // of others in this thread; ours leave none behind
  std::size_t total = 0;
  for (const iovec& part : parts)
    for (std::size_t filled = 0; filled < part.iov_len;) {
      std::size_t got = 0;
      if (SSL_read_ex(
              ssl_.get(),
              static_cast<char*>(part.iov_base) + filled,
              part.iov_len - filled,
              &got) != 1) {
        const Io io = failed_reading();
        return total > 0 ? Io{.state = Io::State::Done, .bytes = total} : io;
      }
      filled += got;
      total += got;
      // Nothing is left inside: what has come should not wait for a look at the socket.
      if (SSL_has_pending(ssl_.get()) == 0) {
        socket_.flush();
        return {.state = Io::State::Done, .bytes = total};
      }
    }
  socket_.flush();  // what reading may have made OpenSSL answer, as a new key
  return {.state = Io::State::Done, .bytes = total};
}

Io TlsStream::failed_reading() {
  const int error = SSL_get_error(ssl_.get(), 0);
  socket_.flush();  // an alert, perhaps
  if (error == SSL_ERROR_WANT_READ)
    return {.state = Io::State::Blocked};
  if (error == SSL_ERROR_ZERO_RETURN)
    return {.state = Io::State::Closed};  // a goodbye
  failed_ = true;
  const TlsTrouble trouble = take_tls_trouble(*ssl_, notes_ ? &*notes_ : nullptr);
  const bool cut = socket_.broken() || socket_.ended();
  return closed(cut ? socket_.trouble() : trouble.got);
}

Io TlsStream::write(std::span<const iovec> parts) {
  TRIREME_ASSERT(through_);
  if (failed_)
    return {.state = Io::State::Closed};
  bool sent = socket_.flush();
  if (!sent)
    return stopped_sending();
  RecordCutter cutter(parts);
  std::size_t taken = 0;
  if (owes_byte_ && !cutter.empty()) {
    owes_byte_ = false;
    cutter.skip(1);
    taken = 1;
  }
  ERR_clear_error();
  while (sent && !cutter.empty()) {
    const auto record = cutter.next(scratch_);
    cutter.skip(record.size());
    socket_.send_at_once(cutter.empty());
    if (!write_record(record))
      return stopped_sending();
    taken += record.size();
    if (cutter.empty() || socket_.gathered() >= TlsSocket::kBatch)
      sent = socket_.flush();
  }
  if (sent)
    return {.state = Io::State::Done, .bytes = taken};
  // What waits inside would be forgotten if the caller thought that all is done: one
  // byte stays open until it is sent.
  owes_byte_ = true;
  --taken;
  return taken > 0 ? Io{.state = Io::State::Done, .bytes = taken} : stopped_sending();
}

bool TlsStream::write_record(std::span<const char> record) {
  if (++records_ % records_per_key_ == 0)
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  std::size_t written = 0;
  if (SSL_write_ex(ssl_.get(), record.data(), record.size(), &written) != 1) {
    failed_ = true;
    trouble_ = take_openssl_error();
    return false;
  }
  TRIREME_ASSERT(written == record.size());
  return true;
}

Io TlsStream::stopped_sending() {
  if (!failed_ && !socket_.broken())
    return {.state = Io::State::Blocked};
  return closed(socket_.broken() ? socket_.trouble() : trouble_);
}

Io TlsStream::closed(std::string why) {
  trouble_ = std::move(why);
  return {.state = Io::State::Closed};
}

void TlsStream::shut_down() {
  ERR_clear_error();
  if (through_ && !failed_)
    SSL_shutdown(ssl_.get());
  ERR_clear_error();
  socket_.flush();
  ::shutdown(fd(), SHUT_WR);
}

void TlsStream::check_name(const std::string& name) const {
  TRIREME_ASSERT(through_);
  if (notes_)
    return;
  // Not X509_check_host: it takes W1 for w1, and a name that begins with a dot for all
  // that end so.
  const X509* certificate = SSL_get0_peer_certificate(ssl_.get());
  std::vector<std::string> quoted;
  for (const std::string& one : names_in(*certificate)) {
    if (one == name)
      return;
    quoted.push_back(in_quotes(one));
  }
  throw Error(text(
      "[net] expected the certificate of ",
      in_quotes(name),
      ", got one for ",
      list_names(quoted),
      "; give each worker the certificate that was made for its name"));
}

}  // namespace trireme::net
