/* The least that a server of HTTP does: it reads each request and writes an answer that it was
 * given, one system call each, on one thread. bench/beside_triton.py compiles it and measures
 * servers beside it: what it takes is the kernel's.
 *
 *     read_write PORT "METHOD PATH" FILE ["METHOD PATH" FILE]...
 *
 * FILE is the whole answer to requests that begin so; other requests end the program. A request
 * must come in one piece, as those of `tutti load` do over the loopback. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { ANSWERS = 8, BYTES = 1 << 16, EVENTS = 256 };

struct answer {
    const char *begins;
    size_t length, bytes;
    char text[BYTES];
};

static struct answer answers[ANSWERS];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void watch(int poll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) < 0)
        fail("epoll");
}

static void answer(int fd) {
    static char request[BYTES];
    ssize_t count = read(fd, request, sizeof(request));
    if (count <= 0) {
        close(fd);
        return;
    }
    const struct answer *found = answers;
    while (found->begins && memcmp(request, found->begins, found->length) != 0)
        found++;
    if (!found->begins || write(fd, found->text, found->bytes) != (ssize_t)found->bytes)
        fail("answer");
}

int main(int argc, char **argv) {
    for (int i = 2; i + 1 < argc && i / 2 < ANSWERS; i += 2) {
        struct answer *next = &answers[i / 2 - 1];
        FILE *file = fopen(argv[i + 1], "rb");
        if (!file)
            fail(argv[i + 1]);
        next->begins = argv[i];
        next->length = strlen(argv[i]);
        next->bytes = fread(next->text, 1, sizeof(next->text), file);
        fclose(file);
    }
    int poll = epoll_create1(0), one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argc > 1 ? argv[1] : "0")),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(listener, 512) < 0)
        fail("listen");
    watch(poll, listener);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(poll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != listener) {
                answer(events[i].data.fd);
                continue;
            }
            int fd = accept(listener, NULL, NULL);
            if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
                fail("accept");
            watch(poll, fd);
        }
    }
}
