/* For LD_PRELOAD: each call that reads datagrams, of those that may bring several, takes
 * $LATE_DATAGRAMS_MS longer, as if the machine had stopped there. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit) {
    const char *text = getenv("LATE_DATAGRAMS_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
    return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, limit);
}
