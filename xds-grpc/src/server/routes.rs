//! The discovery services by their names, as a router of tonic's wants them.

use tonic::service::Routes;
use xds_core::service::service_names;

use super::service::DiscoveryService;

/// Leads every discovery service to the one that serves them all.
pub(super) fn routes(service: &DiscoveryService) -> Routes {
    let mut router = Routes::default().into_axum_router();
    for name in service_names() {
        router = router.route_service(&format!("/{name}/{{*method}}"), service.clone());
    }
    Routes::from(router)
}
