/* The roles that a node of a cluster can have. Implemented in fleet_roles.c. */
#ifndef TT_FLEET_FLEET_ROLES_H
#define TT_FLEET_FLEET_ROLES_H

#include "fleet/fleet_node.h"

extern const struct tt_fleet_role tt_frontend_node_role, tt_scheduler_node_role,
    tt_backend_node_role;

const struct tt_fleet_role *tt_fleet_role_of(enum tt_cluster_role role);

#endif
