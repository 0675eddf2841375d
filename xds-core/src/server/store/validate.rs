//! Validation of a single change.
// M218

use super::{
    resource_options::ResourceOptions,
    transaction::{ChangeContent, ResourceChange, TransactionError},
};
use crate::{
    server::config::ServerConfig,
    text::ResourceName,
    xdstp::{self, XdstpName},
};

impl ResourceChange {
    /// Checks the change on its own. `change` is its index in the transaction.
    pub(crate) fn check(
        &self,
        change: usize,
        config: &ServerConfig,
    ) -> Result<(), TransactionError> {
        let limits = &config.limits;
        let limit = limits.name_bytes;
        if self.type_url.is_empty() {
            return Err(TransactionError::EmptyTypeUrl { change });
        }
        let bytes = self.type_url.as_str().len();
        if bytes > limit {
            return Err(TransactionError::NameTooLong { change, bytes, limit });
        }
        self.check_name(&self.name, change, limit)?;
        if let ChangeContent::Resource(_, options) = &self.content {
            let (aliases, limit) = (options.aliases.len(), limits.aliases_per_resource);
            if aliases > limit {
                return Err(TransactionError::TooManyAliases { change, aliases, limit });
            }
            for alias in &options.aliases {
                self.check_name(alias, change, limits.name_bytes)?;
            }
            let globs = config.type_config(self.type_url.as_str()).globs;
            if options.aliases.iter().chain([&self.name]).any(|name| globs.is_glob(name)) {
                return Err(TransactionError::GlobName { change });
            }
        }
        match &self.content {
            ChangeContent::Error(error) if error.message.len() > limit => {
                Err(TransactionError::MessageTooLong { change, bytes: error.message.len(), limit })
            }
            ChangeContent::Resource(_, ResourceOptions { ttl: Some(ttl), .. })
                if !ResourceOptions::is_ttl_in_range(*ttl) =>
            {
                Err(TransactionError::TtlOutOfRange { change, ttl: *ttl })
            }
            ChangeContent::Resource(payload, _) if payload.len() > limits.resource_bytes => {
                Err(TransactionError::ResourceTooLong {
                    change,
                    bytes: payload.len(),
                    limit: limits.resource_bytes,
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks whether clients can request a resource of the type by this name.
    fn check_name(
        &self,
        name: &ResourceName,
        change: usize,
        limit: usize,
    ) -> Result<(), TransactionError> {
        let bytes = name.as_str().len();
        if name.is_empty() {
            return Err(TransactionError::EmptyName { change });
        }
        if *name == "*" {
            return Err(TransactionError::WildcardName { change });
        }
        if bytes > limit {
            return Err(TransactionError::NameTooLong { change, bytes, limit });
        }
        if xdstp::is_xdstp(name.as_str()) {
            let name = XdstpName::parse(name.as_str());
            let name = name.map_err(|why| TransactionError::MalformedName { change, why })?;
            if !name.is_of(&self.type_url) {
                return Err(TransactionError::ForeignName { change });
            }
        }
        Ok(())
    }
}
