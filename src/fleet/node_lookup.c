#include "fleet/node_lookup.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

struct tt_node_lookup {
    uv_getaddrinfo_t request;
    tt_node_lookup_fn *done; /* NULL: cancelled */
    void *context;
    uint16_t number;
};

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found) {
    struct tt_node_lookup *self = request->data;
    if (self->done && status == 0)
        self->done(self->context, self->number, found->ai_addr, found->ai_addrlen, NULL);
    else if (self->done)
        self->done(self->context, self->number, NULL, 0, uv_strerror(status));
    uv_freeaddrinfo(found);
    free(self);
}

struct tt_node_lookup *tt_node_lookup_begin(uv_loop_t *loop, const struct tt_cluster_place *place,
                                            uint16_t number, const struct sockaddr_storage *like,
                                            tt_node_lookup_fn *done, void *context) {
    struct tt_node_lookup *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    *self = (struct tt_node_lookup){.done = done, .context = context, .number = number};
    self->request.data = self;
    char service[16];
    snprintf(service, sizeof(service), "%d", place->tcp_port);
    const struct addrinfo hints = {.ai_family = like->ss_family, .ai_socktype = SOCK_STREAM};
    if (uv_getaddrinfo(loop, &self->request, on_found, place->host, service, &hints) == 0)
        return self;
    free(self);
    return NULL;
}

void tt_node_lookup_cancel(struct tt_node_lookup *take_self) {
    if (!take_self)
        return;
    take_self->done = NULL;
    uv_cancel((uv_req_t *)&take_self->request);
}
