/* The network of a virtual cluster: links between nodes, and the events to come.
 *
 * A link is ordered: its messages arrive in the order in which they were sent. While it is cut they
 * wait; after `link_timeout_ns` of that the connection is lost with everything that waits. A
 * datagram is sent besides the link: it may be lost, repeated, or overtaken, and none is repaired.
 * A frozen node receives nothing until it goes on; its messages wait for it.
 *
 * Implemented in virtual_network.c. */
#ifndef TT_CLUSTER_VIRTUAL_NETWORK_H
#define TT_CLUSTER_VIRTUAL_NETWORK_H

#include "base/prng.h"
#include "cluster/cluster.h"

#include <stdint.h>

enum tt_virtual_event_kind {
    TT_EVENT_ARRIVAL,     /* a client's request; at: which frontend is drawn then */
    TT_EVENT_CANCEL,      /* the client of request `number` of node `to` goes */
    TT_EVENT_MESSAGE,     /* bytes for node `to`; number: ns that it takes more than others */
    TT_EVENT_WISH,        /* a client loads or unloads a model; at: which is drawn then */
    TT_EVENT_MODEL,       /* a model comes */
    TT_EVENT_PLACE,       /* a look at the placement */
    TT_EVENT_ACTED,       /* node `to` has loaded or unloaded model `number` */
    TT_EVENT_LINK,        /* link to `from` changed, for node `to`; number: enum tt_link */
    TT_EVENT_READ,        /* node `to` has read request `number` of `from`; length: its attempt */
    TT_EVENT_EMITTED,     /* device `number` of node `to`: member `from` of its plan has a word;
                             length: 1 it is the last, and 2 the answer comes with it */
    TT_EVENT_RAN,         /* device `number` of node `to` has ended its batch */
    TT_EVENT_RAN_IN_VAIN, /* the same, but the model was not there */
    TT_EVENT_FAULT,       /* fault `number` begins */
    TT_EVENT_FAULT_ENDS,  /* fault `number` ends */
    TT_EVENT_TIMEOUT,     /* the cut of fault `number` has lasted too long for its links */
    TT_EVENT_ASKED,       /* the coordination service gets a request of node `to`, in `bytes` */
    TT_EVENT_TOLD,        /* node `to` gets the answer in `bytes` */
    TT_EVENT_MEMBER,      /* node `to` looks after its membership */
    TT_EVENT_TICK,        /* node `to` asked to be called */
};

struct tt_virtual_event {
    int64_t at;
    uint64_t order; /* ties: the earlier scheduled first */
    enum tt_virtual_event_kind kind;
    uint16_t from, to;
    uint32_t life; /* of `to`, or of the link; an event of an earlier life is void */
    int64_t number;
    uint8_t *bytes; /* MESSAGE: owned */
    size_t length;
};

struct tt_virtual_link {
    int64_t last_at; /* delivery of the latest message */
    int32_t cuts;    /* faults that cut it now */
    int64_t cut_since;
    uint32_t life; /* of the connection */
    bool is_lost;
};

struct tt_virtual_network {
    int32_t node_count;
    int64_t now;                     /* of the latest event */
    struct tt_virtual_event *events; /* a binary heap */
    int64_t event_count, event_capacity;
    uint64_t scheduled;
    struct tt_virtual_link *links; /* [node_count][node_count]; one per direction */
    struct tt_virtual_event *held; /* messages on links that are cut, in order */
    int64_t held_count, held_capacity;
    struct tt_prng prng;
    int64_t delay_ns;
    int32_t loss_permille;
};

TT_MUST_CHECK enum tt_err tt_virtual_network_init(struct tt_virtual_network *self,
                                                  int32_t node_count, uint64_t seed,
                                                  int64_t delay_ns, int32_t loss_permille);
void tt_virtual_network_fini(struct tt_virtual_network *self);

/* Adds an event; its bytes, if any, change owners. Aborts if memory runs out, as all that add. */
void tt_virtual_network_schedule(struct tt_virtual_network *self,
                                 struct tt_virtual_event take_event);
/* Takes the next event; false: none is left. Its bytes are the caller's. */
bool tt_virtual_network_next(struct tt_virtual_network *self, struct tt_virtual_event *out_event);

struct tt_virtual_link *tt_virtual_network_link(struct tt_virtual_network *self, uint16_t from,
                                                uint16_t to);
/* Sends over the link, or as a datagram; it takes `extra_ns` more than the drawn delay. The bytes
 * are copied. */
void tt_virtual_network_send(struct tt_virtual_network *self, int64_t now, uint16_t from,
                             uint16_t to, const uint8_t *bytes, size_t length, bool is_datagram,
                             int64_t extra_ns);
/* One more fault cuts both directions / one less: what waited is sent on. */
void tt_virtual_network_cut(struct tt_virtual_network *self, int64_t now, uint16_t a, uint16_t b);
void tt_virtual_network_heal(struct tt_virtual_network *self, int64_t now, uint16_t a, uint16_t b);
/* The connections between the two end: what is on its way is lost. */
void tt_virtual_network_reset(struct tt_virtual_network *self, uint16_t a, uint16_t b);

#endif
