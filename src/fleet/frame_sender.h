/* What a role left in its outbox goes to the other nodes: as datagrams, as frames, and as frames
 * with payloads that the role writes, each where it belongs: behind the frame, or in memory that
 * the receiver shares (fleet/node_memory.h).
 *
 * One thread, the node's. Implemented in frame_sender.c. */
#ifndef TT_FLEET_FRAME_SENDER_H
#define TT_FLEET_FRAME_SENDER_H

#include "fleet/fleet_node.h"

struct tt_frame_sender {
    struct tt_node_links *links; /* borrowed, as all of these */
    struct tt_node_memory *memory;
    const struct tt_fleet_role *role;
    struct tt_frame_record *group; /* [group_capacity]: of the frame that is being sent */
    uint8_t **rooms;               /* [room_capacity]: of its payloads in memory; NULL: none */
    int64_t group_capacity, room_capacity;
};

void tt_frame_sender_fini(struct tt_frame_sender *self);
/* Sends everything, and clears the outbox. `role_self`: the role's. Aborts if memory runs out. */
void tt_frame_sender_send(struct tt_frame_sender *self, void *role_self);

#endif
