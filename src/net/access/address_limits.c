#include "net/access/address_limits.h"

#include "base/fnv.h"
#include "base/threads/lock.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, V6_KEY_BYTES = 8, KEY_BYTES = 16 };

struct tt_address_place {
    uint8_t key[KEY_BYTES];
    int64_t connections;
    struct tt_client_limits requests;
    struct tt_byte_holder *holder; /* a reference; NULL: bytes have no limit */
    struct tt_address_place *next;
};

struct tt_address_limits {
    int64_t limit, bytes_limit; /* 0: none */
    struct tt_lock lock;
    int32_t count;
    struct tt_address_place *buckets[BUCKETS];
};

struct tt_address_limits *tt_address_limits_new(int64_t limit, int64_t bytes_limit) {
    tt_assert(limit > 0 || bytes_limit > 0);
    struct tt_address_limits *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    self->limit = limit;
    self->bytes_limit = bytes_limit;
    tt_lock_init(&self->lock);
    return self;
}

void tt_address_limits_free(struct tt_address_limits *take_self) {
    if (!take_self)
        return;
    tt_assert(take_self->count == 0);
    tt_lock_fini(&take_self->lock);
    free(take_self);
}

static void key_of(const struct tt_peer_address *peer, uint8_t out_key[KEY_BYTES]) {
    bool is_v4 = tt_peer_address_is_v4(peer);
    memset(out_key, 0, KEY_BYTES);
    memcpy(out_key, peer->bytes, is_v4 ? KEY_BYTES : V6_KEY_BYTES);
}

static struct tt_address_place **bucket_of(struct tt_address_limits *self, const uint8_t *key) {
    return &self->buckets[tt_fnv_add(TT_FNV_START, key, KEY_BYTES) % BUCKETS];
}

/* The link to the place of that key; it is NULL if there is none. */
static struct tt_address_place **find(struct tt_address_limits *self, const uint8_t *key) {
    struct tt_address_place **link = bucket_of(self, key);
    while (*link && memcmp((*link)->key, key, KEY_BYTES) != 0)
        link = &(*link)->next;
    return link;
}

static void holder_free(struct tt_shared *shared) {
    free(TT_CONTAINER_OF(shared, struct tt_byte_holder, shared));
}

/* Without a connection yet. NULL: no memory. */
static struct tt_address_place *place_new(const struct tt_address_limits *self,
                                          const uint8_t key[KEY_BYTES]) {
    struct tt_address_place *place = calloc(1, sizeof(*place));
    if (!place)
        return NULL;
    memcpy(place->key, key, KEY_BYTES);
    if (self->bytes_limit == 0)
        return place;
    place->holder = calloc(1, sizeof(*place->holder));
    if (!place->holder) {
        free(place);
        return NULL;
    }
    tt_shared_init(&place->holder->shared, holder_free);
    place->holder->name = "the client's address";
    place->holder->setting = "--limit-bytes-per-address";
    place->holder->bytes_limit = self->bytes_limit;
    return place;
}

static void refuse(const struct tt_address_limits *self, const char *what, struct tt_error *why) {
    (void)tt_fail(TT_ERR_BUSY, why,
                  "the client's address has %lld %s, the limit of each address "
                  "(--limit-per-address); try again later",
                  (long long)self->limit, what);
}

bool tt_address_limits_enter(struct tt_address_limits *self, const struct tt_peer_address *peer,
                             struct tt_address_place **out_place, struct tt_error *why) {
    uint8_t key[KEY_BYTES];
    *out_place = NULL;
    if (!peer->is_known)
        return true;
    key_of(peer, key);
    tt_lock_take(&self->lock);
    struct tt_address_place **link = find(self, key), *place = *link;
    if (!place && (place = place_new(self, key)) != NULL) {
        *link = place;
        self->count++;
    }
    bool may = place && (self->limit == 0 || place->connections < self->limit);
    if (may)
        place->connections++;
    tt_lock_give(&self->lock);
    if (may)
        *out_place = place;
    else if (place)
        refuse(self, "connections", why);
    else
        (void)tt_fail(TT_ERR_NO_MEMORY, why, "no memory for another connection");
    return may;
}

void tt_address_limits_leave(struct tt_address_limits *self, struct tt_address_place *place) {
    if (!place)
        return;
    tt_lock_take(&self->lock);
    tt_assert(place->connections > 0);
    bool is_last = --place->connections == 0;
    if (is_last) {
        tt_assert(tt_client_limits_in_work(&place->requests) == 0);
        struct tt_address_place **link = find(self, place->key);
        tt_assert(*link == place);
        *link = place->next;
        self->count--;
    }
    tt_lock_give(&self->lock);
    if (is_last) {
        tt_byte_holder_unref(place->holder);
        free(place);
    }
}

bool tt_address_limits_begin(const struct tt_address_limits *self, struct tt_address_place *place,
                             struct tt_error *why) {
    if (!place || tt_client_limits_enter(&place->requests, self->limit))
        return true;
    refuse(self, "requests in flight", why);
    return false;
}

void tt_address_limits_end(struct tt_address_place *place) {
    if (place)
        tt_client_limits_leave(&place->requests);
}

struct tt_byte_holder *tt_address_place_holder(const struct tt_address_place *place) {
    return place ? place->holder : NULL;
}

int32_t tt_address_limits_count(struct tt_address_limits *self) {
    tt_lock_take(&self->lock);
    int32_t count = self->count;
    tt_lock_give(&self->lock);
    return count;
}

void tt_address_limits_check(struct tt_address_limits *self) {
    int32_t count = 0;
    tt_lock_take(&self->lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct tt_address_place *place = self->buckets[i]; place; place = place->next) {
            count++;
            tt_assert(bucket_of(self, place->key) == &self->buckets[i]);
            tt_assert(*find(self, place->key) == place); /* once */
            tt_assert(place->connections > 0);
            tt_assert(self->limit == 0 || place->connections <= self->limit);
            tt_assert((place->holder != NULL) == (self->bytes_limit > 0));
            tt_assert(tt_client_limits_in_work(&place->requests) >= 0);
        }
    tt_assert(count == self->count);
    tt_lock_give(&self->lock);
}
