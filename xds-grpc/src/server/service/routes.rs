//! The discovery services as tonic routes.

use tonic::service::Routes;
use xds_core::service::service_names;

use super::DiscoveryService;

/// Routes every discovery service name to the common service.
pub(crate) fn routes(service: &DiscoveryService) -> Routes {
    let mut router = Routes::default().into_axum_router();
    for name in service_names() {
        router = router.route_service(&format!("/{name}/{{*method}}"), service.clone());
    }
    Routes::from(router)
}
