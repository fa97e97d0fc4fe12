#include "net/sockets/socket_group.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

void tt_socket_group_add(struct tt_socket_group *self, struct tt_socket_server *server) {
    tt_assert(self->count < TT_SOCKET_GROUP_MAX);
    self->servers[self->count++] = server;
}

static void *serve(void *server) {
    tt_socket_server_run(server);
    return NULL;
}

/* Signals go to the program's other threads. */
static enum tt_err start_thread(struct tt_socket_group *self, const char *name,
                                struct tt_error *why) {
    int32_t index = self->thread_count;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&self->threads[index], NULL, serve, self->servers[index]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return tt_fail(TT_ERR_IO, why, "cannot start connection thread %d of %d: %s", index + 1,
                       self->count, strerror(failed));
    char thread_name[16];
    snprintf(thread_name, sizeof(thread_name), "%.10s-%d", name, index);
    pthread_setname_np(self->threads[index], thread_name);
    self->thread_count++;
    return TT_OK;
}

enum tt_err tt_socket_group_open_ports(struct tt_socket_group *self, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; i < self->count && !err; i++)
        err = tt_socket_server_open_port(self->servers[i], why);
    return err;
}

enum tt_err tt_socket_group_start(struct tt_socket_group *self, const char *name,
                                  struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 1; i < self->count && !err; i++)
        err = tt_socket_server_open_inbox(self->servers[i], why);
    if (!err && self->count > 1)
        tt_socket_server_set_peers(self->servers[0], self->servers, self->count);
    self->thread_count = 1;
    while (!err && self->thread_count < self->count)
        err = start_thread(self, name, why);
    return err;
}

static void join(struct tt_socket_group *self) {
    while (self->thread_count > 1)
        pthread_join(self->threads[--self->thread_count], NULL);
}

void tt_socket_group_run(struct tt_socket_group *self) {
    tt_socket_server_run(self->servers[0]);
    join(self);
}

void tt_socket_group_close(struct tt_socket_group *self) {
    for (int32_t i = 0; i < self->count; i++) {
        tt_socket_server_close(self->servers[i]); /* the first one stops those that run */
        join(self);
    }
    self->count = 0;
}
