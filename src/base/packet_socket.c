#include "base/packet_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 64, KIND = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC };

/* Room for more descriptors than are expected, so that none is lost unclosed. */
enum { MAX_DESCRIPTORS = 16 };

static socklen_t address_of(const char *name, struct sockaddr_un *out_address) {
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(name);
    tt_assert(length > 0 && length < sizeof(out_address->sun_path));
    memcpy(out_address->sun_path + 1, name, length); /* a name begins with a zero byte */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static enum tt_err system_error(const char *what, struct tt_error *why) {
    bool is_later = errno == EAGAIN || errno == EINTR;
    return tt_fail(is_later ? TT_ERR_BUSY : TT_ERR_IO, why, "cannot %s: %s", what, strerror(errno));
}

/* Closes the socket unless its other side is a process of the same user. */
static enum tt_err check_user(int take_fd, struct tt_error *why) {
    struct ucred peer;
    socklen_t bytes = sizeof(peer);
    enum tt_err err = TT_OK;
    if (getsockopt(take_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
        err = system_error("ask for the user of a peer", why);
    else if (peer.uid != geteuid())
        err = tt_fail(TT_ERR_INVALID, why, "user %u is at the other side; it would have to be %u",
                      (unsigned)peer.uid, (unsigned)geteuid());
    if (err)
        close(take_fd);
    return err;
}

enum tt_err tt_packet_listen(const char *name, int *out_fd, struct tt_error *why) {
    struct sockaddr_un address;
    socklen_t bytes = address_of(name, &address);
    int fd = socket(AF_UNIX, KIND, 0);
    if (fd < 0)
        return system_error("make a Unix socket", why);
    if (bind(fd, (const struct sockaddr *)&address, bytes) || listen(fd, BACKLOG)) {
        enum tt_err err = system_error("listen on a Unix socket", why);
        close(fd);
        return err;
    }
    *out_fd = fd;
    return TT_OK;
}

enum tt_err tt_packet_connect(const char *name, int *out_fd, struct tt_error *why) {
    struct sockaddr_un address;
    socklen_t bytes = address_of(name, &address);
    int fd = socket(AF_UNIX, KIND, 0);
    if (fd < 0)
        return system_error("make a Unix socket", why);
    if (connect(fd, (const struct sockaddr *)&address, bytes)) {
        enum tt_err err = errno == ECONNREFUSED
                              ? tt_fail(TT_ERR_UNAVAILABLE, why, "it does not listen on this host")
                              : system_error("connect to a Unix socket", why);
        close(fd);
        return err;
    }
    enum tt_err err = check_user(fd, why);
    if (!err)
        *out_fd = fd;
    return err;
}

enum tt_err tt_packet_accept(int listener, int *out_fd, struct tt_error *why) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return system_error("accept a connection", why);
    enum tt_err err = check_user(fd, why);
    if (!err)
        *out_fd = fd;
    return err;
}

enum tt_err tt_packet_send(int fd, const uint8_t *bytes, size_t count, const int *fds,
                           int32_t fd_count, struct tt_error *why) {
    tt_assert(fd_count >= 0 && fd_count <= TT_PACKET_DESCRIPTORS);
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = count};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(TT_PACKET_DESCRIPTORS * sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        size_t size = (size_t)fd_count * sizeof(int);
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(head), fds, size);
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)count ? TT_OK : system_error("send a packet", why);
}

/* Keeps the first descriptors, and closes what is beyond. Returns how many came. */
static int32_t take_descriptors(struct msghdr *message, int out_fds[TT_PACKET_DESCRIPTORS]) {
    int32_t came = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++, came++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
            if (came < TT_PACKET_DESCRIPTORS)
                out_fds[came] = fd;
            else
                close(fd);
        }
    }
    return came;
}

enum tt_err tt_packet_receive(int fd, uint8_t *out_bytes, size_t capacity, size_t *out_count,
                              int out_fds[TT_PACKET_DESCRIPTORS], struct tt_error *why) {
    struct iovec part = {.iov_base = out_bytes, .iov_len = capacity};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    for (int32_t i = 0; i < TT_PACKET_DESCRIPTORS; i++)
        out_fds[i] = -1;
    ssize_t count = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (count < 0)
        return system_error("receive a packet", why);
    int32_t came = take_descriptors(&message, out_fds);
    bool is_cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if (count > 0 && came <= TT_PACKET_DESCRIPTORS && !is_cut) {
        *out_count = (size_t)count;
        return TT_OK;
    }
    for (int32_t i = 0; i < TT_PACKET_DESCRIPTORS; i++) {
        if (out_fds[i] >= 0)
            close(out_fds[i]);
        out_fds[i] = -1;
    }
    return count == 0 ? tt_fail(TT_ERR_UNAVAILABLE, why, "the peer closed the connection")
                      : tt_fail(TT_ERR_INVALID, why, "a packet has too many bytes or descriptors");
}
