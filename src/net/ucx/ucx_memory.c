#include "net/ucx/ucx_memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 64 };

static enum tt_err ucx_error(const struct tt_ucx *self, enum tt_err err, const char *what,
                             tt_ucx_status status, struct tt_error *why) {
    return tt_fail(err, why, "UCX cannot %s: %s", what, self->library->ucs_status_string(status));
}

/* ---- life ---- */

static enum tt_err open_context(struct tt_ucx *self, struct tt_error *why) {
    const struct tt_ucx_params params = {.mask = TT_UCX_PARAMS_FEATURES,
                                         .features = TT_UCX_FEATURE_RMA | TT_UCX_FEATURE_WAKEUP};
    void *config = NULL;
    tt_ucx_status status = self->library->ucp_config_read(NULL, NULL, &config);
    if (status != TT_UCX_OK)
        return ucx_error(self, TT_ERR_UNAVAILABLE, "read its settings", status, why);
    status = self->library->ucp_init_version(TT_UCX_MAJOR, TT_UCX_MINOR, &params, config,
                                             &self->context);
    self->library->ucp_config_release(config);
    if (status == TT_UCX_OK)
        return TT_OK;
    self->context = NULL;
    return ucx_error(self, TT_ERR_UNAVAILABLE, "start (UCX_TLS may exclude all lanes)", status,
                     why);
}

static enum tt_err open_worker(struct tt_ucx *self, struct tt_error *why) {
    const struct tt_ucx_worker_params params = {.mask = TT_UCX_WORKER_THREAD_MODE,
                                                .thread_mode = TT_UCX_THREAD_SERIALIZED};
    tt_ucx_status status = self->library->ucp_worker_create(self->context, &params, &self->worker);
    if (status != TT_UCX_OK) {
        self->worker = NULL;
        return ucx_error(self, TT_ERR_UNAVAILABLE, "make a worker", status, why);
    }
    status = self->library->ucp_worker_get_efd(self->worker, &self->fd);
    if (status != TT_UCX_OK)
        return ucx_error(self, TT_ERR_UNAVAILABLE, "wait for events", status, why);
    status =
        self->library->ucp_worker_get_address(self->worker, &self->address, &self->address_bytes);
    if (status != TT_UCX_OK) {
        self->address = NULL;
        return ucx_error(self, TT_ERR_UNAVAILABLE, "say its address", status, why);
    }
    return TT_OK;
}

enum tt_err tt_ucx_open(struct tt_ucx *self, const struct tt_ucx_library *library,
                        struct tt_error *why) {
    *self = (struct tt_ucx){.library = library, .fd = -1};
    tt_list_init(&self->endpoints);
    tt_list_init(&self->ended);
    enum tt_err err = open_context(self, why);
    if (!err)
        err = open_worker(self, why);
    if (err)
        tt_ucx_close(self);
    return err;
}

void tt_ucx_stop(struct tt_ucx *self) {
    if (self->address)
        self->library->ucp_worker_release_address(self->worker, self->address);
    if (self->worker)
        self->library->ucp_worker_destroy(self->worker);
    self->address = self->worker = NULL;
}

void tt_ucx_close(struct tt_ucx *self) {
    tt_ucx_stop(self);
    if (self->context)
        self->library->ucp_cleanup(self->context);
    for (struct tt_list_node *node; self->context && (node = tt_list_first(&self->endpoints));) {
        tt_list_remove(node); /* the process ends, and its peer does not answer */
        free(TT_CONTAINER_OF(node, struct tt_ucx_endpoint, node));
    }
    *self = (struct tt_ucx){.fd = -1};
}

/* ---- progress ---- */

/* Frees endpoints that were closed and have nothing under way. */
static int32_t reap(struct tt_ucx *self) {
    int32_t count = 0;
    struct tt_list_node *next;
    for (struct tt_list_node *node = tt_list_first(&self->endpoints); node; node = next) {
        next = tt_list_next(&self->endpoints, node);
        struct tt_ucx_endpoint *endpoint = TT_CONTAINER_OF(node, struct tt_ucx_endpoint, node);
        if (!endpoint->is_closing || endpoint->under_way > 0)
            continue;
        tt_list_remove(node);
        endpoint->gone(endpoint->context);
        free(endpoint);
        count++;
    }
    return count;
}

int32_t tt_ucx_progress(struct tt_ucx *self) {
    int32_t count = 0;
    for (int32_t round = 0; !self->is_held && round < MAX_ROUNDS; round++)
        if (self->library->ucp_worker_progress(self->worker) == 0)
            break;
    for (struct tt_list_node *node; (node = tt_list_first(&self->ended)); count++) {
        struct tt_ucx_operation *operation = TT_CONTAINER_OF(node, struct tt_ucx_operation, node);
        tt_list_remove(node);
        operation->endpoint->under_way--;
        operation->done(operation, operation->is_done);
    }
    return count + reap(self);
}

bool tt_ucx_rest(struct tt_ucx *self) {
    if (!tt_list_empty(&self->ended))
        return false;
    return self->is_held || self->library->ucp_worker_arm(self->worker) != TT_UCX_BUSY;
}

void tt_ucx_hold(struct tt_ucx *self, bool is_held) { self->is_held = is_held; }

/* ---- regions ---- */

enum tt_err tt_ucx_region_new(struct tt_ucx *self, size_t size, struct tt_ucx_region *out_region,
                              struct tt_error *why) {
    const struct tt_ucx_memory_params params = {.mask = TT_UCX_MEMORY_LENGTH | TT_UCX_MEMORY_FLAGS,
                                                .length = size,
                                                .flags = TT_UCX_MEMORY_ALLOCATE};
    struct tt_ucx_memory_attributes found = {.mask = TT_UCX_MEMORY_ADDRESS | TT_UCX_MEMORY_LENGTH};
    struct tt_ucx_region region = {.size = size};
    tt_ucx_status status = self->library->ucp_mem_map(self->context, &params, &region.memory);
    if (status != TT_UCX_OK)
        return ucx_error(self, TT_ERR_NO_MEMORY, "register memory", status, why);
    status = self->library->ucp_mem_query(region.memory, &found);
    if (status == TT_UCX_OK)
        status = self->library->ucp_rkey_pack(self->context, region.memory, &region.key,
                                              &region.key_bytes);
    if (status != TT_UCX_OK) {
        self->library->ucp_mem_unmap(self->context, region.memory);
        return ucx_error(self, TT_ERR_NO_MEMORY, "give access to memory", status, why);
    }
    tt_assert(found.length >= size);
    region.bytes = found.address;

    *out_region = region;
    return TT_OK;
}

void tt_ucx_region_free(struct tt_ucx *self, struct tt_ucx_region *region) {
    if (region->key)
        self->library->ucp_rkey_buffer_release(region->key);
    if (region->memory)
        self->library->ucp_mem_unmap(self->context, region->memory);
    *region = (struct tt_ucx_region){.bytes = NULL};
}

/* ---- endpoints ---- */

static void on_error(void *context, void *handle, tt_ucx_status status) {
    (void)handle;
    struct tt_ucx_endpoint *self = context;
    const char *reason = self->ucx->library->ucs_status_string(status);
    self->is_failed = true;
    strncpy(self->why, reason, sizeof(self->why) - 1);
}

enum tt_err tt_ucx_connect(struct tt_ucx *self, const void *address,
                           struct tt_ucx_endpoint **out_endpoint, struct tt_error *why) {
    struct tt_ucx_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    if (!endpoint)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    endpoint->ucx = self;
    const struct tt_ucx_endpoint_params params = {.mask = TT_UCX_ENDPOINT_ADDRESS |
                                                          TT_UCX_ENDPOINT_ERROR_MODE |
                                                          TT_UCX_ENDPOINT_ERROR_HANDLER,
                                                  .address = address,
                                                  .error_mode = TT_UCX_ERROR_MODE_PEER,
                                                  .on_error = on_error,
                                                  .context = endpoint};
    tt_ucx_status status = self->library->ucp_ep_create(self->worker, &params, &endpoint->handle);
    if (status != TT_UCX_OK) {
        free(endpoint);
        return ucx_error(self, TT_ERR_UNAVAILABLE, "reach the peer", status, why);
    }
    tt_list_push_back(&self->endpoints, &endpoint->node);
    *out_endpoint = endpoint;
    return TT_OK;
}

static void on_closed(void *request, tt_ucx_status status, void *user) {
    (void)status;
    struct tt_ucx_endpoint *self = user;
    self->under_way--;
    self->ucx->library->ucp_request_free(request);
}

void tt_ucx_endpoint_close(struct tt_ucx_endpoint *take_self, void (*gone)(void *context),
                           void *context) {
    const struct tt_ucx_request_params params = {
        .mask = TT_UCX_REQUEST_FLAGS | TT_UCX_REQUEST_CALLBACK | TT_UCX_REQUEST_USER,
        .flags = TT_UCX_CLOSE_FORCE,
        .done = on_closed,
        .user = take_self};
    tt_assert(!take_self->is_closing);
    take_self->is_closing = true;
    take_self->gone = gone;
    take_self->context = context;
    take_self->under_way++;
    void *request = take_self->ucx->library->ucp_ep_close_nbx(take_self->handle, &params);
    if (tt_ucx_result(request) != TT_UCX_IN_PROGRESS)
        take_self->under_way--;
}

/* A line has "lane[0]:  1:tcp/lo.0 md[1] ...": the resource's number, its name, a dot, a path. */
static void append_lane(const char *line, struct tt_text *out) {
    const char *at = strstr(line, "lane[");
    at = at ? strchr(at, ':') : NULL;
    if (!at)
        return;
    at += 1 + strspn(at + 1, " 0123456789");
    at += *at == ':';
    size_t length = strcspn(at, " .\n");
    char name[64];
    if (length == 0 || length >= sizeof(name))
        return;
    memcpy(name, at, length);
    name[length] = '\0';
    if (!strstr(tt_text_string(out), name))
        tt_text_printf(out, "%s%s", out->length > 0 ? ", " : "", name);
}

void tt_ucx_endpoint_lanes(struct tt_ucx_endpoint *self, struct tt_text *out) {
    char *said = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&said, &bytes);
    if (stream) {
        self->ucx->library->ucp_ep_print_info(self->handle, stream);
        fclose(stream);
    }
    char *rest = NULL;
    for (char *line = said ? strtok_r(said, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        append_lane(line, out);
    free(said);
    if (out->length == 0)
        tt_text_puts(out, "lanes without a name");
}

enum tt_err tt_ucx_key_unpack(struct tt_ucx_endpoint *endpoint, const void *packed, void **out_key,
                              struct tt_error *why) {
    tt_ucx_status status =
        endpoint->ucx->library->ucp_ep_rkey_unpack(endpoint->handle, packed, out_key);
    return status == TT_UCX_OK
               ? TT_OK
               : ucx_error(endpoint->ucx, TT_ERR_INVALID, "use the peer's key", status, why);
}

void tt_ucx_key_free(struct tt_ucx *self, void *key) {
    if (key)
        self->library->ucp_rkey_destroy(key);
}

/* ---- operations ---- */

static void end(struct tt_ucx_operation *operation, tt_ucx_status status) {
    operation->is_done = status == TT_UCX_OK;
    tt_list_push_back(&operation->endpoint->ucx->ended, &operation->node);
}

static void on_done(void *request, tt_ucx_status status, void *user) {
    struct tt_ucx_operation *operation = user;
    operation->endpoint->ucx->library->ucp_request_free(request);
    end(operation, status);
}

static struct tt_ucx_request_params begin(struct tt_ucx_endpoint *endpoint,
                                          struct tt_ucx_operation *operation,
                                          const struct tt_ucx_region *region) {
    tt_assert(!endpoint->is_closing && !tt_list_linked(&operation->node));
    operation->endpoint = endpoint;
    endpoint->under_way++;
    return (struct tt_ucx_request_params){.mask = TT_UCX_REQUEST_CALLBACK | TT_UCX_REQUEST_USER |
                                                  (region ? TT_UCX_REQUEST_MEMORY : 0u),
                                          .done = on_done,
                                          .user = operation,
                                          .memory = region ? region->memory : NULL};
}

static void started(struct tt_ucx_operation *operation, const void *returned) {
    tt_ucx_status status = tt_ucx_result(returned);
    if (status != TT_UCX_IN_PROGRESS)
        end(operation, status);
}

static bool holds(const struct tt_ucx_region *region, const void *buffer, size_t bytes) {
    size_t at = (size_t)((const uint8_t *)buffer - region->bytes);
    return (const uint8_t *)buffer >= region->bytes && at <= region->size &&
           bytes <= region->size - at;
}

void tt_ucx_get(struct tt_ucx_endpoint *endpoint, struct tt_ucx_operation *operation,
                const struct tt_ucx_region *region, void *buffer, size_t bytes, uint64_t from,
                void *key) {
    tt_assert(holds(region, buffer, bytes));
    struct tt_ucx_request_params params = begin(endpoint, operation, region);
    started(operation, endpoint->ucx->library->ucp_get_nbx(endpoint->handle, buffer, bytes, from,
                                                           key, &params));
}

void tt_ucx_put(struct tt_ucx_endpoint *endpoint, struct tt_ucx_operation *operation,
                const struct tt_ucx_region *region, const void *buffer, size_t bytes, uint64_t to,
                void *key) {
    tt_assert(holds(region, buffer, bytes));
    struct tt_ucx_request_params params = begin(endpoint, operation, region);
    started(operation,
            endpoint->ucx->library->ucp_put_nbx(endpoint->handle, buffer, bytes, to, key, &params));
}

void tt_ucx_flush(struct tt_ucx_endpoint *endpoint, struct tt_ucx_operation *operation) {
    struct tt_ucx_request_params params = begin(endpoint, operation, NULL);
    started(operation, endpoint->ucx->library->ucp_ep_flush_nbx(endpoint->handle, &params));
}

void tt_ucx_check(const struct tt_ucx *self) {
    const struct tt_list_node *node;
    for (node = tt_list_first(&self->ended); node; node = tt_list_next(&self->ended, node)) {
        const struct tt_ucx_operation *operation =
            TT_CONTAINER_OF(node, const struct tt_ucx_operation, node);
        tt_assert(operation->endpoint->ucx == self && operation->endpoint->under_way > 0);
    }
    for (node = tt_list_first(&self->endpoints); node;
         node = tt_list_next(&self->endpoints, node)) {
        const struct tt_ucx_endpoint *endpoint =
            TT_CONTAINER_OF(node, const struct tt_ucx_endpoint, node);
        tt_assert(endpoint->ucx == self && endpoint->under_way >= 0);
        tt_assert(!endpoint->is_closing || endpoint->gone);
    }
}
