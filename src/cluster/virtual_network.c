#include "cluster/virtual_network.h"

#include "base/array.h"
#include "base/instant.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_virtual_network_init(struct tt_virtual_network *self, int32_t node_count,
                                    uint64_t seed, int64_t delay_ns, int32_t loss_permille) {
    size_t links = (size_t)node_count * (size_t)node_count;
    *self = (struct tt_virtual_network){.node_count = node_count,
                                        .links = calloc(links, sizeof(*self->links)),
                                        .delay_ns = delay_ns,
                                        .loss_permille = loss_permille};
    tt_prng_init(&self->prng, seed, 1);
    return self->links ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_virtual_network_fini(struct tt_virtual_network *self) {
    for (int64_t i = 0; i < self->event_count; i++)
        free(self->events[i].bytes);
    for (int64_t i = 0; i < self->held_count; i++)
        free(self->held[i].bytes);
    free(self->events);
    free(self->held);
    free(self->links);
    *self = (struct tt_virtual_network){0};
}

/* ---- events in order of time ---- */

static bool is_before(const struct tt_virtual_event *a, const struct tt_virtual_event *b) {
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void tt_virtual_network_schedule(struct tt_virtual_network *self,
                                 struct tt_virtual_event take_event) {
    bool reserved = TT_ARRAY_RESERVE(self->events, &self->event_capacity, self->event_count + 1);
    tt_assert(reserved);
    take_event.order = self->scheduled++;
    int64_t at = self->event_count++;
    for (; at > 0 && is_before(&take_event, &self->events[(at - 1) / 2]); at = (at - 1) / 2)
        self->events[at] = self->events[(at - 1) / 2];
    self->events[at] = take_event;
}

bool tt_virtual_network_next(struct tt_virtual_network *self, struct tt_virtual_event *out_event) {
    if (self->event_count == 0)
        return false;
    *out_event = self->events[0];
    struct tt_virtual_event moved = self->events[--self->event_count];
    int64_t at = 0;
    for (int64_t child = 1; child < self->event_count; child = 2 * at + 1) {
        child += child + 1 < self->event_count &&
                 is_before(&self->events[child + 1], &self->events[child]);
        if (!is_before(&self->events[child], &moved))
            break;
        self->events[at] = self->events[child];
        at = child;
    }
    if (self->event_count > 0)
        self->events[at] = moved;
    return true;
}

/* ---- links ---- */

struct tt_virtual_link *tt_virtual_network_link(struct tt_virtual_network *self, uint16_t from,
                                                uint16_t to) {
    return &self->links[(size_t)from * (size_t)self->node_count + to];
}

/* Half the mean at least; one message in 100 takes ten times as long. */
static int64_t draw_delay(struct tt_virtual_network *self) {
    int64_t delay =
        self->delay_ns / 2 + (int64_t)tt_prng_below(&self->prng, (uint64_t)self->delay_ns);
    return tt_prng_below(&self->prng, 100) == 0 ? 10 * delay : delay;
}

static struct tt_virtual_event message(uint16_t from, uint16_t to, uint32_t life,
                                       const uint8_t *bytes, size_t length, int64_t extra_ns) {
    struct tt_virtual_event event = {.kind = TT_EVENT_MESSAGE,
                                     .from = from,
                                     .to = to,
                                     .life = life,
                                     .number = extra_ns,
                                     .bytes = malloc(length),
                                     .length = length};
    tt_assert(event.bytes != NULL);
    memcpy(event.bytes, bytes, length);
    return event;
}

static void send_datagram(struct tt_virtual_network *self, int64_t now, uint16_t from, uint16_t to,
                          const uint8_t *bytes, size_t length, int64_t extra_ns) {
    const struct tt_virtual_link *link = tt_virtual_network_link(self, from, to);
    int32_t copies = tt_prng_below(&self->prng, 1000) < (uint64_t)self->loss_permille ? 2 : 1;
    bool is_lost = tt_prng_below(&self->prng, 1000) < (uint64_t)self->loss_permille;
    for (int32_t i = 0; !is_lost && link->cuts == 0 && i < copies; i++) {
        struct tt_virtual_event event = message(from, to, link->life, bytes, length, extra_ns);
        event.at = now + draw_delay(self) + extra_ns;
        tt_virtual_network_schedule(self, event);
    }
}

static void deliver(struct tt_virtual_network *self, int64_t now, struct tt_virtual_link *link,
                    struct tt_virtual_event event) {
    link->last_at = tt_instant_max(link->last_at, now + draw_delay(self) + event.number);
    event.at = link->last_at;
    tt_virtual_network_schedule(self, event);
}

void tt_virtual_network_send(struct tt_virtual_network *self, int64_t now, uint16_t from,
                             uint16_t to, const uint8_t *bytes, size_t length, bool is_datagram,
                             int64_t extra_ns) {
    struct tt_virtual_link *link = tt_virtual_network_link(self, from, to);
    if (link->is_lost)
        return;
    if (is_datagram) {
        send_datagram(self, now, from, to, bytes, length, extra_ns);
        return;
    }
    struct tt_virtual_event event = message(from, to, link->life, bytes, length, extra_ns);
    if (link->cuts > 0) {
        bool reserved = TT_ARRAY_RESERVE(self->held, &self->held_capacity, self->held_count + 1);
        tt_assert(reserved);
        self->held[self->held_count++] = event;
        return;
    }
    deliver(self, now, link, event);
}

/* Takes the messages out that wait on the link, in order; they are sent on, or freed. */
static void release(struct tt_virtual_network *self, int64_t now, uint16_t from, uint16_t to,
                    bool send) {
    struct tt_virtual_link *link = tt_virtual_network_link(self, from, to);
    int64_t kept = 0;
    for (int64_t i = 0; i < self->held_count; i++) {
        struct tt_virtual_event event = self->held[i];
        if (event.from != from || event.to != to) {
            self->held[kept++] = event;
        } else if (send) {
            deliver(self, now, link, event);
        } else {
            free(event.bytes);
        }
    }
    self->held_count = kept;
}

void tt_virtual_network_cut(struct tt_virtual_network *self, int64_t now, uint16_t a, uint16_t b) {
    for (int32_t i = 0; i < 2; i++) {
        struct tt_virtual_link *link = tt_virtual_network_link(self, i ? a : b, i ? b : a);
        if (link->cuts++ == 0)
            link->cut_since = now;
    }
}

void tt_virtual_network_heal(struct tt_virtual_network *self, int64_t now, uint16_t a, uint16_t b) {
    for (int32_t i = 0; i < 2; i++) {
        uint16_t from = i ? a : b, to = i ? b : a;
        struct tt_virtual_link *link = tt_virtual_network_link(self, from, to);
        tt_assert(link->cuts > 0);
        if (--link->cuts == 0)
            release(self, now, from, to, !link->is_lost);
    }
}

void tt_virtual_network_reset(struct tt_virtual_network *self, uint16_t a, uint16_t b) {
    for (int32_t i = 0; i < 2; i++) {
        uint16_t from = i ? a : b, to = i ? b : a;
        struct tt_virtual_link *link = tt_virtual_network_link(self, from, to);
        link->life++;
        release(self, 0, from, to, false);
    }
}
