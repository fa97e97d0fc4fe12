#include "fleet/fleet_roles.h"

const struct tt_fleet_role *tt_fleet_role_of(enum tt_cluster_role role) {
    switch (role) {
    case TT_ROLE_FRONTEND: return &tt_frontend_node_role;
    case TT_ROLE_SCHEDULER: return &tt_scheduler_node_role;
    case TT_ROLE_BACKEND: break;
    }
    return &tt_backend_node_role;
}
